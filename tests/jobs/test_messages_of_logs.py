"""Whatever is wrong with a log: neither messages nor ingest_log have any of its content."""

import gzip
import json
import re
from random import Random

import pytest
import zstandard
from conftest import NETWORKS_FILE, ask

from schemas.zeek import MONITOR_LOG
from spark_jobs.capture import FrontEnd
from spark_jobs.commands.cli import main
from spark_jobs.warehouse.store import Warehouse
from tests.helpers.hostile_texts import HOSTILE, KINDS, ROWS, in_json, in_tsv

USER, SERVER, USER6 = "10.65.83.97", "203.0.113.177", "2001:db8:7a3f:9c::5e1d"
IMSI, HOST, UID, PHONE = (
    "001017734592816",
    "private.example.org",
    "CqZv8Rk3xJw0PbLtY2",
    "49157790123",
)
PERSONAL = {
    "user": USER, "server": SERVER, "nas": USER, "address": USER, "framed_addr": USER,
    "id.orig_h": USER, "id.resp_h": SERVER, "session": f"s-{IMSI}", "subscriber": IMSI,
    "username": IMSI, "mac": PHONE, "host": HOST, "uri": f"/{HOST}/{IMSI}", "server_name": HOST,
    "uid": UID,
}  # fmt: skip
FRAGMENT = 7
"""Characters of a value that no message has by chance."""
FRAGMENTS = {
    text[at : at + FRAGMENT]
    for text in (USER, SERVER, USER6, IMSI, HOST, UID, PHONE)
    for at in range(len(text) - FRAGMENT + 1)
}
FRAGMENTS |= {text.encode().hex(" ") for text in FRAGMENTS}
WRONG = [*HOSTILE, "9" * 400, USER6, IMSI, HOST, f"{USER}\t{HOST}", f"{HOST}\n{IMSI}\t{USER}\n"]
COMPRESSIONS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}
DAMAGES = 6
"""Damaged files of each kind, form and compression."""


def row_of(kind: str) -> dict[str, str]:
    of_kind = {name: text for name, text in PERSONAL.items() if name in ROWS[kind]}
    more = {"http": ("host", "uri"), "ssl": ("server_name",), "radius": ("mac",)}.get(kind, ())
    return ROWS[kind] | of_kind | {name: PERSONAL[name] for name in (*more, "uid")}


def damaged(random: Random, content: bytes) -> bytes:
    """Return a log after some cuts, swaps, insertions and wrong values."""
    for _ in range(random.randint(1, 3)):
        at, length = random.randrange(len(content)), random.randint(1, 60)
        begin, end = content[:at], content[at:]
        match random.choice(["cut", "drop", "swap", "insert", "value", "field", "line"]):
            case "cut":
                content = begin or content
            case "drop":
                content = begin + end[length:]
            case "swap":
                content = begin + end[length : 2 * length] + end[:length] + end[2 * length :]
            case "insert":
                content = begin + random.choice([random.randbytes(4), b"\t", b"\n"]) + end
            case "value":
                text = random.choice(WRONG).encode("utf-8", "surrogatepass")
                content = begin + re.sub(rb'[^\t\n,":]+', lambda _, new=text: new, end, count=1)
            case "field":
                content = begin + re.sub(rb"[\t,]", b"", end, count=1)
            case "line":
                content = begin + end.replace(b"\n", b"", 1)
    return content or b"\n"


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {MONITOR_LOG.path}))
def test_no_message_has_content_of_a_log(kind, tmp_path, capsys):
    random, folder, root = Random(kind), tmp_path / "logs", tmp_path / "w"
    folder.mkdir()
    for form in (in_tsv, in_json):
        whole = form(kind, *[row_of(kind)] * 6)
        for suffix, compress in COMPRESSIONS.items():
            for n in range(DAMAGES):
                data = compress(damaged(random, whole))
                data = data[: random.randrange(len(data))] if n % 3 == 2 else data
                (folder / f"{kind}.{form.__name__}{suffix}-{n}.log{suffix}").write_bytes(data)
        (folder / f"{kind}.{form.__name__}.log").write_bytes(whole)
    paths = sorted(folder.iterdir())
    assert any(USER.encode() in path.read_bytes() for path in paths)
    for front_end in (FrontEnd.AUTO, FrontEnd.ZEEK_LOG):
        with pytest.raises(SystemExit, match="2"):
            main(
                ["ingest", "--warehouse", str(root), "--networks", str(NETWORKS_FILE),
                 "--network", "aa-gprs", "--front-end", front_end, *map(str, paths)]
            )  # fmt: skip
    out, err = capsys.readouterr()
    warehouse = Warehouse(root)
    logged = ask(warehouse, "select * from ingest_log").fetchall()
    facts = [published.facts for published in warehouse.published_units("capture")]
    assert len(logged) > len(paths) / 2
    assert re.search(r"\.log:\d+: (column [a-z_.]+: |\d+ values in)", err)
    for text in (out, err, repr(logged), json.dumps(facts)):
        assert not {part for part in FRAGMENTS if part in text}
