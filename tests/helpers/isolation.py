"""Where a test makes one thing fail."""

from pathlib import Path

from conftest import ask

from spark_jobs.warehouse.store import Warehouse
from tests.helpers.command import giscope


def networks_file(folder: Path, *names: str) -> Path:
    path = folder / "networks.toml"
    path.write_text(
        "\n".join(
            f'[[network]]\nname = "{name}"\ncountry = "HU"\naccess = "lte"\ntimezone = "UTC"\n'
            'subscribers = ["10.0.0.0/8", "2001:db8::/32"]\n'
            for name in names
        )
    )
    return path


class Place:
    """A folder with a networks file, captures and a warehouse."""

    def __init__(self, folder: Path, *networks: str):
        self.folder, self.root = folder, folder / "w"
        self.networks = networks_file(folder, *networks)
        self.where = "--warehouse", self.root, "--networks", self.networks

    def run(self):
        return giscope("run", *self.where, self.folder / "captures")

    def users(self, network: str) -> list[str]:
        """Return options that name all users of a network."""
        found = self.ask(f"select distinct user from packets where network = '{network}'")
        return [word for (user,) in found for word in ("--user", user)]

    def ask(self, query: str) -> list[tuple]:
        return ask(Warehouse(self.root), query).fetchall()
