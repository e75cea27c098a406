"""What members are told, and what nobody is told."""

from __future__ import annotations

import os
from pathlib import Path

from service.operations.member_logs import log_path
from tests.contract.subjects import member, wait_for_end
from tests.integration.local_launcher.bench import Bench, python
from workers.launchers.base import MemberKey, Outcome

SECRET = "correct-horse-battery-staple"


def environment_of(bench: Bench, key: MemberKey) -> dict[str, str]:
    wait_for_end(bench.launcher, key)
    lines = log_path(bench.data, key).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_a_gang_is_told_who_it_is(bench: Bench) -> None:
    launches = [
        member(
            ("env",),
            unit_id=(3 << 20) + 5,
            attempt=2,
            generation=1,
            member=number,
            world_size=3,
            devices=(number, 7 - number),
            env={"LR": "1e-4"},
        )
        for number in range(3)
    ]
    bench.start(*launches)
    told = [environment_of(bench, launch.key) for launch in launches]
    for number, each in enumerate(told):
        assert each["RANK"] == each["LOCAL_RANK"] == str(number)
        assert each["MUSTER_INDEX"] == str(number)
        assert each["WORLD_SIZE"] == each["MUSTER_COUNT"] == "3"
        assert each["CUDA_VISIBLE_DEVICES"] == f"{number},{7 - number}"
        assert each["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
        assert each["MUSTER_MEMBER"] == f"{(3 << 20) + 5}/2/1/{number}"
        assert (each["MUSTER_GROUP"], each["MUSTER_ROLE"]) == ("train", "worker")
        assert (each["MASTER_ADDR"], each["LR"]) == ("127.0.0.1", "1e-4")
    assert len({each["MASTER_PORT"] for each in told}) == 1


def test_only_what_is_needed_is_passed_on(bench: Bench) -> None:
    bench.reopen(
        environment={"PATH": "/usr/bin:/bin", "HOME": "/root", "MUSTER_SECRET_KEY": SECRET, "TOKEN": SECRET}
    )
    launch = member(("env",), devices=())
    bench.start(launch)
    told = environment_of(bench, launch.key)
    own = {"PATH": "/usr/bin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
    muster = {name: value for name, value in told.items() if name not in own}
    assert told == muster | own
    assert set(muster) == {
        "MUSTER_MEMBER",
        "MUSTER_OWNER",
        "MUSTER_GROUP",
        "MUSTER_ROLE",
        "MUSTER_INDEX",
        "MUSTER_COUNT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
    }
    assert told["CUDA_VISIBLE_DEVICES"] == ""  # hides all of them


def test_a_group_cannot_pretend_to_be_another(bench: Bench) -> None:
    launch = member(
        ("env",), env={"RANK": "9", "PATH": "/usr/bin:/bin:/mine"}, secrets={"MUSTER_MEMBER": "1/1/0/0"}
    )
    bench.start(launch)
    told = environment_of(bench, launch.key)
    assert (told["RANK"], told["MUSTER_MEMBER"]) == ("0", str(launch.key))
    assert told["PATH"] == "/usr/bin:/bin:/mine"


def test_the_port_of_a_generation_is_chosen_once(bench: Bench) -> None:
    """Also when its members are launched by several calls, of several launchers."""
    first = member(("env",), member=0)
    second = member(("env",), member=1, devices=(1,))
    other = member(("env",), generation=1, devices=(2,))
    bench.start(first)
    bench.reopen()
    bench.start(second, other)
    ports = [environment_of(bench, each.key)["MASTER_PORT"] for each in (first, second, other)]
    assert ports[0] == ports[1] != ports[2]
    assert bench.record(second.key).record.master_port == int(ports[0])


def test_secrets_reach_the_member_and_no_file(bench: Bench) -> None:
    launch = member(
        python("note('up'); sys.exit(0 if os.environ['TOKEN'].startswith('correct-horse') else 1)"),
        secrets={"TOKEN": SECRET},
    )
    bench.start(launch)
    assert wait_for_end(bench.launcher, launch.key).exit_code == 0
    failing = member(("/nonexistent",), unit_id=9 << 20, secrets={"TOKEN": SECRET})
    bench.start(failing)
    files = [path for path in bench.data.rglob("*") if path.is_file()]
    assert len(files) >= 5
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    assert SECRET not in repr(launch)


def test_a_secret_that_a_member_prints_is_not_in_its_log(bench: Bench) -> None:
    launch = member(python("print('token:', os.environ['TOKEN'], 'end')"), secrets={"TOKEN": SECRET})
    bench.start(launch)
    wait_for_end(bench.launcher, launch.key)
    assert log_path(bench.data, launch.key).read_text() == "token: *** end\n"


def test_a_secret_that_cannot_be_encoded_starts_nothing(bench: Bench) -> None:
    launch = member(("true",), secrets={"TOKEN": f"{SECRET}\ud800"})
    [result] = bench.start(launch)
    assert result.outcome == Outcome.REFUSED
    assert "surrogates not allowed" in (result.message or "")
    assert SECRET not in (result.message or "")
    assert SECRET not in bench.layout.supervisor_log.read_text()


def test_secrets_are_in_no_argument_and_no_other_environment(bench: Bench) -> None:
    launch = member(python("note('up'); time.sleep(60)"), secrets={"TOKEN": SECRET})
    bench.start(launch)
    process = bench.pid_of("up")
    supervisor = bench.record(launch.key).record.supervisor
    for pid in (supervisor.pid, bench.launcher.spawner_pid):
        folder = Path("/proc") / str(pid)
        assert SECRET.encode() not in (folder / "cmdline").read_bytes()
        assert SECRET.encode() not in (folder / "environ").read_bytes()
    assert SECRET.encode() not in (Path("/proc") / str(process.pid) / "cmdline").read_bytes()


def test_a_spawner_knows_nothing_of_the_service(bench: Bench) -> None:
    os.environ["MUSTER_TEST_TOKEN"] = SECRET
    try:
        bench.reopen()
    finally:
        del os.environ["MUSTER_TEST_TOKEN"]
    key = bench.run("pass")
    wait_for_end(bench.launcher, key)
    environment = (Path("/proc") / str(bench.launcher.spawner_pid) / "environ").read_bytes()
    names = {each.split(b"=")[0] for each in environment.split(b"\0") if each}
    assert names == {b"PATH", b"LANG", b"PYTHONPATH"}


def test_a_member_starts_in_its_workdir_or_the_service_s(bench: Bench) -> None:
    (bench.folder / "elsewhere").mkdir()
    here = member(("pwd",))
    there = member(("pwd",), unit_id=9 << 20, workdir=str(bench.folder / "elsewhere"))
    bench.start(here, there)
    for launch, folder in ((here, bench.folder), (there, bench.folder / "elsewhere")):
        wait_for_end(bench.launcher, launch.key)
        assert log_path(bench.data, launch.key).read_text().strip() == str(folder)


def test_a_member_has_no_descriptor_but_its_three(bench: Bench) -> None:
    launch = member(("ls", "/proc/self/fd"))
    bench.start(launch)
    wait_for_end(bench.launcher, launch.key)
    found = log_path(bench.data, launch.key).read_text().split()
    assert found == ["0", "1", "2", "3"]  # the last is the folder that ls reads


def test_folders_are_for_this_user_alone(bench: Bench) -> None:
    key = bench.run("print('x')")
    wait_for_end(bench.launcher, key)
    kept = [path for path in bench.layout.root.rglob("*") if not path.is_socket()]
    for path in [bench.layout.root, *kept, bench.data / "logs", log_path(bench.data, key)]:
        assert path.stat().st_mode & 0o077 == 0, path
