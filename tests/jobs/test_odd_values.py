"""Odd values of every option, of every variable that giscope reads and of every key of the networks
file give success or a line that says what is wrong: no traceback, no endless wait. Each is tried
with some of the values, always the same.

Options, variables and keys are found by looking, so that new ones are tested without a change here.
Devices are reached by symbolic links only: a command that replaced its output, as `giscope report`
did once, would otherwise replace the machine's device."""

import contextlib
import io
import os
import re
import resource
import shutil
import signal
import socket
import socketserver
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import zstandard
from conftest import CAPTURES, GISCOPE, NETWORKS_FILE, ROOT, _first_records, made_once
from conftest import run_in_this_process as without_processes
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from spark_jobs.base import places
from spark_jobs.commands import cli
from spark_jobs.settings.networks import Network, QualityLimits, Retention
from tests.helpers.command import giscope

COMMANDS = typer.main.get_command(cli.app).commands
SECONDS, BYTES = 60, 4 << 30
"""Time and memory that a command may take beside what the tests have: it needs a small part."""
LINK = "dev_"
"""Prefix of the links to devices."""

LONG = "x" * 100_000
TEXTS = [
    *("", " ", "-", "--", "\udcff", "line\nbreak", "\x1b[31m", "'", '"', "%s", "{}", "../x"),
    *("a=b", ",", LONG, "\u2028", "\U0010ffff", "nan", "(", "(" * 5000, "0.0.0.0", "::1%eth0"),
    *("1.2.3.4/33", "10.64.0.1", "ip.addr == 10.64.0.1", "tcp.port == " + "9" * 40),
    *("(" * 3000 + "tcp.port==1" + ")" * 3000, "0001-01-01T00:00:00", "1000-01-01T00:00+23:59"),
    *("2999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59", "2004-03-28T02:30:00", "24:00"),
    *("hours=1-99999999999999999999", "days=0001-01-01..9999-12-31", "days=..", "network="),
    *("select 1", "select '\udcff'", "select 1/0", "select range(10000000000)", "packets", "marts"),
    *("select * from read_csv('/dev/zero')", "select " + "(" * 1000 + "1" + ")" * 1000),
    *("select 'infinity'::date, 'nan'::double, '290309-12-22 (BC) 00:00:00'::timestamp",),
    *("1KiB", "99999999999TiB", "1" * 400 + "GiB", "nanGiB", "1e9GiB", "64MiB"),
    *(
        "postgresql://u@127.0.0.1:1/d",
        "postgresql://[::1/d",
        "postgresql://127.0.0.1:99999/d",
        "sqlite://",
    ),
    *(
        "postgresql://127.0.0.1:1/d?foo=bar",
        "postgresql://127.0.0.1:x/d",
        "http://",
        "http://[::1",
        "ftp://x",
        "http://\udcff",
        "0" * 64,
    ),
]
DAYS = [
    *("", "0000-00-00", "0001-01-01", "1677-09-21", "1969-12-31", "1970-01-01", "2004-03-02"),
    *("2038-01-19", "2262-04-12", "9999-12-31", "10000-01-01", "-1-01-01", "2004-02-30", "inf"),
    *(LONG, "2004-03-02\n", "2004-W10-2", "\udcff"),
]
NUMBERS = [
    *("", "-1", "0", "-0", "1", "1.5", "nan", "-nan", "inf", "-inf", "1e308", "1e400", "1e-320"),
    *("1e9", "5e9", "9.3e18", "3e6", "36501", str(2**31), str(2**63 - 1), str(2**63)),
    *(str(-(2**63) - 1), "1" * 400, "1" * 5000, LONG, "1_0", "0x10", "\udcff", "65536", "1\n"),
]  # fmt: skip
URLS = [
    "s3://",
    "s3:///k",
    "s3://b",
    "s3://b/../..",
    "s3://A_b/x y",
    "s3://b\udcff/k",
    "http://x/y",
]
PATHS = [
    *("", ".", "missing", "folder", "file", "file/x", "binary", "huge", "fifo", "socket", "loop"),
    *("dangling", *(f"{LINK}{name}" for name in ("null", "zero", "full", "stdin")), "n" * 300),
    *("d/" * 3000, "bad\udcff", "line\nbreak", "network=x/w", "~", "~nobody/x"),
    *("x:/y", LONG, *URLS, "file:///x"),
]
VALUES = {
    "Path": PATHS,
    "date": DAYS,
    "datetime": DAYS,
    "int": NUMBERS,
    "float": NUMBERS,
    "str": TEXTS,
}
"""Values by the type of an option; a choice is a text."""

NEEDED = {
    "pseudonym": ["--address", "10.64.1.7"],
    "why": ["--port", "80"],
    "plot": ["--port", "80"],
    "purge": ["--before", "2004-01-01"],
    "report": ["--compare", "hours=peak"],
}
"""What a command needs besides its required options ..."""
READERS = ("sql", "why", "plot", "serve", "report", "pseudonym", "zeek-options", "schema")
"""Commands that change no warehouse."""
INSTEAD = {
    *(("pseudonym", "name"), ("pseudonym", "address"), ("why", "flow_id"), ("plot", "flow_ids")),
    *(("purge", "networks"), ("purge", "before")),
}
"""... except with these."""


@pytest.fixture(scope="module", autouse=True)
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run tasks in this process, in a folder with all kinds of files; S3 fails at once."""
    folder = tmp_path_factory.mktemp("here")
    for name in ("folder", "network=x"):
        (folder / name).mkdir()
    (folder / "file").write_text("x")
    (folder / "binary").write_bytes(bytes(range(256)))
    (folder / "huge").touch()
    os.truncate(folder / "huge", 1 << 40)
    os.mkfifo(folder / "fifo")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    for name in ("null", "zero", "full", "stdin"):
        (folder / f"{LINK}{name}").symlink_to(f"/dev/{name}")
    with pytest.MonkeyPatch.context() as patch, socket.socket(socket.AF_UNIX) as listener:
        patch.chdir(folder)
        listener.bind("socket")
        patch.setattr(socketserver.BaseServer, "serve_forever", lambda server: None)
        patch.setitem(places.STORE_OPTIONS, "retry_config", {"max_retries": 0})
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        patch.setenv("AWS_ACCESS_KEY_ID", "x")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "x")
        without_processes(patch)
        yield folder


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a warehouse of the beginning of a capture."""

    def make(folder: Path) -> None:
        raw = zstandard.decompress((CAPTURES / "aa-gprs/peak.pcap.zst").read_bytes())
        (folder / "captures/aa-gprs").mkdir(parents=True)
        (folder / "captures/aa-gprs/peak.pcap").write_bytes(_first_records(raw, 1000))
        (folder / "few.pcap").write_bytes(_first_records(raw, 100))
        where = ["--warehouse", str(folder / "w"), "--networks", str(NETWORKS_FILE)]
        with pytest.MonkeyPatch.context() as patch:
            without_processes(patch)
            assert not giscope("run", *where, folder / "captures").returncode

    return made_once(tmp_path_factory, "small", make)


class Hung(BaseException):
    """A command did not end in time."""


def outcome(words: list[str]) -> tuple[int, str]:
    """Return the exit status of a command and what it printed to stderr.

    Raises what the command raises, Hung after SECONDS, and AssertionError for output that is not
    lines of giscope, or if memory ran out.
    """

    def hang(*_: object) -> None:
        raise Hung

    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)
    status: Any = 0
    earlier, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (used + BYTES, hard))
    signal.signal(signal.SIGALRM, hang)
    signal.alarm(SECONDS)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main(words)
    except SystemExit as end:
        status = end.code
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_DATA, (earlier, hard))
    said = err.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert status in (0, 2), said
    assert status == 0 or said
    assert all(line.startswith("giscope: ") for line in said.splitlines())
    assert "not enough memory" not in said
    return status, said


def kind_of(parameter: Any) -> str:
    """Return the type of an option's values, as in VALUES."""
    kind = re.sub(
        r".*[.\[]|['>\]].*", "", str(parameter.type_descriptor.annotation).split(" | ")[0]
    )
    kind = re.sub(r"<class '|.*\.", "", kind)
    return kind if kind in VALUES else "str"


OPTIONS = [
    pytest.param(name, parameter, id=f"{name} {parameter.name}")
    for name, command in COMMANDS.items()
    for parameter in command.params
    if not getattr(parameter, "is_flag", False)
]
"""Each option and argument that takes a value, with its command."""


def words_for(command: str, parameter: Any, value: str, warehouse: Path, small: Path) -> list[str]:
    """Return a command line that is right except for the value of a parameter."""
    right = {
        "warehouse": warehouse,
        "networks": NETWORKS_FILE,
        "network": "aa-gprs",
        "captures": small / "captures",
        "files": small / "few.pcap",
        "day": "2004-03-02",
        "output": "page.html",
        "query": "select count(*) from flows",
    }
    words, arguments = [command], []
    for other in COMMANDS[command].params:
        if other is parameter:
            given = value
        elif other.required:
            given = str(right.get(other.name, "x"))
        else:
            continue
        if other.param_type_name == "argument":
            arguments.append(given)
        else:
            words.append(f"{other.opts[-1]}={given}")
    if (command, parameter.name) not in INSTEAD and (command, parameter.name) != (
        "report",
        "output",
    ):
        words += (
            NEEDED.get(command, []) if command != "report" or parameter.name == "compare" else []
        )
    return [*words, "--", *arguments]


@pytest.mark.parametrize(("command", "parameter"), OPTIONS)
def test_odd_values_of_every_option_give_success_or_a_line(command, parameter, small, tmp_path):
    values = VALUES[kind_of(parameter)]
    again = command in ("run", "ingest") and kind_of(parameter) == "Path"

    def check(value: str) -> None:
        warehouse = small / "w" if command in READERS else fresh(small, tmp_path)
        outcome(words_for(command, parameter, value, warehouse, small))

    each(f"{command} {parameter.name}", st.sampled_from(values), check, 1 if again else 3)


def fresh(small: Path, folder: Path) -> Path:
    """Return a new copy of the warehouse."""
    shutil.rmtree(folder / "w", ignore_errors=True)
    return shutil.copytree(small / "w", folder / "w")


def each(
    name: str, values: st.SearchStrategy[str], check: Callable[[str], None], examples: int
) -> None:
    """Check some values, the same in each run of the test, but others for another name."""
    run = settings(max_examples=examples, database=None, deadline=None, phases=[Phase.generate])(
        seed(zlib.crc32(name.encode()))(given(values)(lambda value: check(value)))
    )
    run()


FILES = {path: path.read_text() for path in (ROOT / "spark_jobs").rglob("*.py")}
NAMED = re.findall(r'"((?:GISCOPE|AWS|XDG)_[A-Z_]+)"', "".join(FILES.values()))
SECRETS = [name for name in NAMED if re.search("_(KEY|ID|TOKEN|REGION|PASSWORD)$", name)]
VARIABLES = sorted({*NAMED, *(f"{name}_FILE" for name in SECRETS)} - {"GISCOPE_MASTER"})
"""Not NUMBA_CACHE_DIR, which Numba reads, nor GISCOPE_MASTER, which starts Java each time."""


@pytest.mark.parametrize("variable", VARIABLES)
def test_odd_values_of_every_variable_give_success_or_a_line(variable, small, tmp_path):
    commands = [
        ["pseudonym", f"--networks={NETWORKS_FILE}", "--network=aa-gprs", "--name=1"],
        ["sql", f"--warehouse={tmp_path / 'w'}", "select count(*) from flows"],
        ["check", "--warehouse=s3://bucket/w", f"--networks={NETWORKS_FILE}"],
    ]
    fresh(small, tmp_path)

    def check(value: str) -> None:
        for command in commands:
            with pytest.MonkeyPatch.context() as patch:
                if command[0] == "check":
                    patch.setenv("GISCOPE_CATALOG", "postgresql://u@127.0.0.1:1/d")
                for name in ("GISCOPE_KEY", "XDG_CONFIG_HOME", variable.removesuffix("_FILE")):
                    patch.delenv(name, raising=False)
                patch.setenv(variable, value)
                places._store.cache_clear()
                outcome(command)

    values = list(dict.fromkeys([*PATHS, *NUMBERS, *TEXTS]))
    each(variable, st.sampled_from(values), check, 3)


LITERALS = [
    *("nan", "inf", "-inf", "1e308", "1e-320", "-1", "0", "1", "1.5", "true", "2004-03-02", "[]"),
    *("2147483647", "9223372036854775807", "9" * 30, "{}", "[[]]", '[""]', "[0, 24]", "[1e308]"),
    *('""', '" "', '"x"', '"\\u0000"', '"\\n"', '"../x"', '"UTC"', '"localtime"', '"Europe"'),
    *('"right/UTC"', '"/dev/zero"', '"posixrules"', '"EST5EDT"', '"Factory"', '"day"', '"none"'),
    *(f'"{LONG}"', '["10.0.0.0/8", "::/0"]', '["0.0.0.0/0"]', '["64:ff9b::/96"]', '"\U0010ffff"'),
]
KEYS = [
    *(f"retention.{name}" for name in Retention.model_fields),
    *(f"quality.{name}" for name in QualityLimits.model_fields),
    *Network.model_fields,
]


@pytest.mark.parametrize("key", KEYS)
def test_odd_values_of_every_key_of_a_network_are_usable_or_named(key, small, tmp_path):
    right = {
        "name": '"aa-gprs"',
        "country": '"AA"',
        "access": '"gprs"',
        "timezone": '"Europe/Budapest"',
        "subscribers": '["10.64.0.0/14"]',
    }
    file = tmp_path / "networks.toml"
    command = ["purge"] if key.startswith("retention") else ["run"]

    def check(value: str) -> None:
        lines = [f"{name} = {text}" for name, text in (right | {key: value}).items()]
        file.write_text("\n".join(["[[network]]", *lines]))
        words = [f"--warehouse={fresh(small, tmp_path)}", f"--networks={file}"]
        captures = [str(small / "captures")] if command == ["run"] else []
        status, said = outcome([*command, *words, *captures])
        assert status == 0 or key in said or "held" in said or "network" in said

    each(key, st.sampled_from(LITERALS), check, 2)


FOUND = [
    ("maintain --warehouse=W --keep-days=inf", "'--keep-days': .*36500"),
    ("maintain --warehouse=W --keep-days=3e6", "'--keep-days': .*36500"),
    ("check --warehouse=W --networks=N --date=0001-01-01", "'--date': '0001.* a day from 1970"),
    ("sql --warehouse=W --at=9999-12-31 FLOWS", ""),
    ("sql --warehouse=W --time-limit=1e308 FLOWS", "number of seconds up to 1e9"),
    (f"sql --warehouse=W --memory-limit={'1' * 400}GiB FLOWS", "not a size from 64MiB"),
    ("report --warehouse=W --output=dev_null", "dev_null: is not a regular file"),
    ("report --warehouse=W --output=.", r"^giscope: \.: "),
    ("report --warehouse=W --output=", "path of a file or folder is empty"),
    ("flows --warehouse=loop --networks=N --network=aa-gprs", "Symlink loop"),
    ("check --warehouse=s3:// --networks=N", "neither a path nor a URL"),
    ("check --warehouse=s3://b/../x --networks=N", "neither a path nor a URL"),
    ("flows --warehouse=http://x/y --networks=N --network=aa-gprs", "neither a path nor a URL"),
    ("forget --warehouse=W --networks=N --network=aa-gprs --user=\udcff", "not UTF-8"),
    ("check --warehouse=W --networks=dev_zero", "dev_zero: is no text of at most"),
    ("check --warehouse=W --networks=fifo", r"fifo: no \[\[network\]\]"),
]
"""Command lines that ended in a traceback, used all memory or never ended, or that did harm."""


@pytest.mark.parametrize(("line", "reason"), FOUND)
def test_what_ended_in_a_traceback_gives_success_or_a_line(line, reason, small, tmp_path):
    stand_for = {"FLOWS": "select 1 from flows", "N": str(NETWORKS_FILE)}
    words = [stand_for.get(word, word) for word in line.split(" ")]
    words = [
        word.replace("=W", f"={tmp_path / 'w'}").replace("=N", f"={NETWORKS_FILE}")
        for word in words
    ]
    fresh(small, tmp_path)
    status, said = outcome(words)
    assert (status, bool(said)) == ((2, True) if reason else (0, False))
    assert re.search(reason, said)
    assert Path("dev_null").is_char_device()


@pytest.mark.parametrize("variable", ["GISCOPE_KEY_FILE", "GISCOPE_CATALOG_PASSWORD_FILE"])
def test_a_key_or_password_file_without_end_is_refused_in_little_memory(variable, here, small):
    """The process has four GiB of addresses, half of which Python's libraries map."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "GISCOPE_KEY"},
        "GISCOPE_CATALOG": "postgresql://u@127.0.0.1:1/d",
        variable: "/dev/zero",
    }
    command = "pseudonym --networks N --network aa-gprs --name 1"
    if variable != "GISCOPE_KEY_FILE":
        command = "marts --warehouse W"
    words = command.replace("N", str(NETWORKS_FILE), 1).replace("W", str(small / "w")).split()
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v 4194304; exec "$@"', "sh", str(GISCOPE), *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert re.fullmatch("giscope: /dev/zero: .*no text of at most .* bytes\n", done.stderr)


def test_a_master_that_spark_does_not_know_is_refused_in_a_line(small, tmp_path):
    where = [f"--warehouse={tmp_path / 'w'}", f"--networks={NETWORKS_FILE}", "--network=aa-gprs"]
    done = subprocess.run(
        [str(GISCOPE), "ingest", *where, str(small / "few.pcap")],
        env=os.environ | {"GISCOPE_MASTER": "local[x]"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 2
    assert re.fullmatch(r"giscope: Spark master local\[x\]: Spark failed: .*parse.*\n", done.stderr)
