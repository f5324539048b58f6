# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The cases: programs, their options, and the lines that each must and must not print.

Tags: `default` is what a plain run does, `smoke` its quick core, `short` all of `default` but the
cases which move many gigabytes, `fft` the functional sets of dapltest, `srq` and `extension` what
needs these features, `vm` cases that any emulated RDMA device can do in a short time, `vm-long`
more such cases.
"""

from typing import NamedTuple

from runner import Case, Listen, Part, Prints

SIDE_CHANNEL = Listen(15828)  # built into dtest, dtestcm and dtestx
DTEST_PORTS = (15828, 45248)
DAPLTEST_PORTS = (62000,)
DAPLTEST_LIMIT_PORT = 43806  # the first of the ports that dapltest -T L listens on


class Place(NamedTuple):
    """A place to run a case: an adapter, and the address at which clients find the server."""

    adapter: str
    host: str = "127.0.0.1"


# A DAT return code other than success, as dat_strerror spells it.
DAT_ERROR = (
    r"DAT_(ABORT|CONN_QUAL_IN_USE|INSUFFICIENT_RESOURCES|INTERNAL_ERROR|INTERRUPTED_CALL"
    r"|INVALID_\w+|LENGTH_ERROR|MODEL_NOT_SUPPORTED|NOT_IMPLEMENTED|PRIVILEGES_VIOLATION"
    r"|PROTECTION_VIOLATION|PROVIDER_\w+|QUEUE_EMPTY|QUEUE_FULL|TIMEOUT_EXPIRED|\w*_ERROR_\w+)"
)
# What dtest and its relatives say when something is wrong.
DTEST_FORBIDDEN = (
    DAT_ERROR,
    r"FAILED|failed",
    r"\bERR\b|ERROR|\bErr(or)?\b",
    r"[Uu]nexpected|[Ii]nvalid|\bwrong\b",
    r"Could( not|n't)|No valid data",
)
# Words that dapltest must not print: its every complaint has words of its own.
DAPLTEST_FORBIDDEN = (
    DAT_ERROR,
    r"Test Error|Internal Error|Validation Error|\bERROR\b|\bError\b",
    r"\berrors?:|\berror (awaiting|destroying|occurs)|\bfails?[: ]|\bfailed\b|\bFAIL",
    r"[Mm]ismatch|MISMATCH",
    r"bad (connection|disconnect) event|Resource Creation Failed|Connection Failed",
    r"[Nn]o [Mm]emory|Cannot |USAGE:|unimplemented",
    r"No completion seen|Secondary completion|Invalid endpoint completion",
)


# ---------------------------------------------------------------------------------------------
# dtest
# ---------------------------------------------------------------------------------------------

MESSAGES = (
    r"Message PingPong: \(\d+ x \d+\)",
    r"RDMA READ DATA with SEND MSG",
    r"RCV RDMA read buffer contains: (client|server) RDMA (read|write) data",
)


def dtest(at: Place, name: str, options: str = "", required: tuple[str, ...] = MESSAGES,
          tags: str = "default short", seconds: float = 180.0,
          of_client: tuple[str, ...] = ()) -> Case:
    """A dtest pair; both sides get equal options and print nearly equal lines."""
    def part(role: tuple[str, ...], *more: str) -> Part:
        return Part(
            argv=("dtest", "-P", at.adapter, *role, *options.split()),
            required=(r"^\d+ CONNECTED!", *required, *more,
                      r"^\d+: DAPL Test Complete\. PASSED"),
            forbidden=DTEST_FORBIDDEN,
        )

    # What each side finds in its buffer in the end: the other's text, if the other wrote any.
    written = {"SERVER": "client", "CLIENT": "server"} if "-W" not in options.split() else {}
    if "-u" in options.split():
        written.pop("CLIENT", None)

    def finds(side: str) -> tuple[str, ...]:
        return ((rf"{side}: RDMA write buffer contains: {written[side]} RDMA write data",)
                if side in written else ())

    return Case(
        name=name,
        server=part(("-s",), *finds("SERVER")),
        clients=(part(("-h", at.host), *finds("CLIENT"), *of_client),),
        ready=SIDE_CHANNEL,
        ports=DTEST_PORTS,
        tags=frozenset(tags.split()),
        seconds=seconds,
        about=f"dtest {options}".strip(),
    )


def dtest_cases(at: Place) -> list[Case]:
    streaming = (r"RDMA WRITE (IMM )?DATA with SEND MSG", r"RDMA write \(bi-direction\): Total=")
    pingpong = (r"RDMA write PingPong: \(\d+ x \d+\)",)
    sweep = (r"PINGPONG with DATA CHECK", r"PingPong: \(\d+ x 1\)", r"PingPong: \(\d+ x 513\)")
    return [
        dtest(at, "dtest", tags="default short smoke"),
        dtest(at, "dtest-p", "-p"),
        dtest(at, "dtest-c", "-c", required=(r"Creating CNO", *MESSAGES)),
        dtest(at, "dtest-w", "-w", required=streaming),
        dtest(at, "dtest-W-a-D", "-W -a -D", required=sweep, tags="default", seconds=900),
        dtest(at, "dtest-W-a-D-64k", "-W -a -D -b 65536", required=sweep,
              tags="default short"),
        dtest(at, "dtest-B100", "-B 100"),
        dtest(at, "dtest-b65536", "-b 65536", tags="default short smoke vm"),
        dtest(at, "dtest-S1", "-S 1"),
        dtest(at, "dtest-p-64k", "-p -b 65536", tags="vm-long"),
        dtest(at, "dtest-c-64k", "-c -b 65536", required=(r"Creating CNO", *MESSAGES), tags="vm"),
        dtest(at, "dtest-w-64k", "-w -b 65536", required=streaming, tags="vm"),
        dtest(at, "dtest-B100-4k", "-B 100 -b 4096", tags="vm"),
        dtest(at, "dtest-S1-64k", "-S 1 -b 65536", tags="vm-long"),
        dtest(at, "dtest-latency", "-W -p -b 64 -B 200", required=pingpong, tags="show"),
        dtest(at, "dtest-bandwidth", "-w -u -p -b 1048576", tags="show",
              required=(), of_client=(r"RDMA write \(uni-direction\): Total=",)),
    ]


# ---------------------------------------------------------------------------------------------
# dtestcm, dtestsrq, dtestx
# ---------------------------------------------------------------------------------------------


def dtestcm(at: Place, name: str, connections: int, burst: int, tags: str) -> Case:
    def part(role: tuple[str, ...], *required: str) -> Part:
        return Part(
            argv=("dtestcm", "-P", at.adapter, *role, "-c", str(connections), "-b", str(burst)),
            required=(*required, r"DAPL Connection Test Complete\."),
            forbidden=DTEST_FORBIDDEN,
        )

    return Case(
        name=name,
        server=part(("-s",), rf"ALL {connections} CONNECTED on Server!"),
        clients=(part(("-h", at.host), rf"ALL {connections} CONNECTED on Client!",
                      rf"Connections: .* CPS .* Num={connections}"),),
        ready=SIDE_CHANNEL,
        ports=DTEST_PORTS,
        tags=frozenset(tags.split()),
        seconds=300,
        about=f"dtestcm -c {connections} -b {burst}",
    )


def dtestsrq(at: Place, name: str, options: str) -> Case:
    def part(role: tuple[str, ...], side: str) -> Part:
        return Part(
            argv=("dtestsrq", "-P", at.adapter, *role, *options.split()),
            required=(rf"ALL \d+ CONNECTED on {side}!", r"DAPL RC (none )?SRQ Test Complete\."),
            forbidden=DTEST_FORBIDDEN,
        )

    return Case(
        name=name,
        server=part(("-s",), "server"),
        clients=(part(("-h", at.host), "client"),),
        ready=Prints(r"server ready on port \d+"),
        ports=DTEST_PORTS,
        tags=frozenset({"vm", "srq"}),
        about=f"dtestsrq {options}",
    )


def dtestx(at: Place) -> Case:
    def part(role: tuple[str, ...]) -> Part:
        return Part(
            argv=("dtestx", "-P", at.adapter, *role),
            required=(r"RDMA_WRITE_WITH_IMMEDIATE_DATA test - PASSED",
                      r"IB extension test - immed/atomic test PASSED"),
            forbidden=(*DTEST_FORBIDDEN, r"not supported"),
            benign=(r"Skipping .* not supported by HW",),
        )

    return Case(
        name="dtestx",
        server=part(("-s",)),
        clients=(part(("-h", at.host)),),
        ready=SIDE_CHANNEL,
        ports=DTEST_PORTS,
        tags=frozenset({"default", "short", "extension"}),
        about="dtestx: immediate data and atomics",
    )


def dtestx_datagrams(at: Place, name: str, more: tuple[str, ...], about: str) -> Case:
    """Both sides connect and listen: addresses go both ways, and then four datagrams each."""
    def part(role: tuple[str, ...]) -> Part:
        return Part(
            argv=("dtestx", "-P", at.adapter, "-u", *more, *role),
            required=(r"Connected! 4 endpoints", r"IB extension test - UD test PASSED"),
            forbidden=(*DTEST_FORBIDDEN, r"not supported"),
        )

    return Case(
        name=name,
        server=part(("-s",)),
        clients=(part(("-c", "-h", at.host)),),
        ready=SIDE_CHANNEL,
        ports=DTEST_PORTS,
        tags=frozenset({"datagrams"}),
        about=about,
    )


# ---------------------------------------------------------------------------------------------
# dapltest
# ---------------------------------------------------------------------------------------------


def dapltest(at: Place, name: str, options: tuple[str, ...], required: tuple[str, ...],
             served: str, tags: str = "default short", seconds: float = 240.0) -> Case:
    """A dapltest server, one client, and a second client which tells the server to quit."""
    def client(more: tuple[str, ...], *wanted: str) -> Part:
        return Part(
            argv=("dapltest", *more),
            required=(*wanted, r"DT_cs_Client: =+ End of Work -- Client Exiting"),
            forbidden=DAPLTEST_FORBIDDEN,
        )

    work = (client(options, *required),) if options else ()
    leave = client(("-T", "Q", "-s", at.host, "-D", at.adapter), r"Quit_Cmd\.device_name: ")
    return Case(
        name=name,
        server=Part(
            argv=("dapltest", "-T", "S", "-D", at.adapter),
            required=(served, r"DT_cs_Server \(.*\): +Exiting\."),
            forbidden=DAPLTEST_FORBIDDEN,
        ),
        clients=(*work, leave),
        ready=Prints(r"Dapltest: Service Point Ready"),
        ports=DAPLTEST_PORTS,
        tags=frozenset(tags.split()),
        seconds=seconds,
        about=" ".join(("dapltest", *options)) if options else "dapltest -T S, then -T Q",
    )


def transaction(at: Place, name: str, options: str, tags: str = "default short") -> Case:
    return dapltest(
        at, f"dapltest-T-{name}",
        ("-T", "T", "-s", at.host, "-D", at.adapter, *options.split()),
        required=(r"----- (Stats ---- : \d+ threads, \d+ EPs|Test completed successfully)",),
        served=r"Server: Transaction Test Finished for this client",
        tags=tags,
    )


def performance(at: Place, operation: str, mode: str) -> Case:
    iterations, size, segments = 1024, 4096, 2
    word = {"b": "blocking", "p": "polling"}[mode]
    return dapltest(
        at, f"dapltest-P-{word}-{operation}",
        ("-T", "P", "-s", at.host, "-D", at.adapter, "-i", str(iterations), "-m", mode, "-p", "16",
         operation, str(size), str(segments)),
        required=(rf"Mode +: {word}", rf"Number of Operations : {iterations}\b",
                  rf"raw: {operation}, {iterations}, {size}, {segments},"),
        served=r"Server: Finished performance test\.",
        tags="default short vm" if (operation, mode) == ("RW", "b") else "default short",
    )


def limits(at: Place, name: str, width: int) -> Case:
    """Local: creates objects up to a maximum, with several adapters open at a time.

    The room for posted receives may run out, and that for an LMR of a gigabyte: the table of its pages
    is too large for rxe of Linux 7.2.
    """
    maximum = 20
    counted = ("IAs opened", "PZs created", "CNOs created", "EVDs created", "EPs created",
               "RSPs created", "PSPs created", "LMRs created")
    return Case(
        name=name,
        clients=(Part(
            argv=("dapltest", "-T", "L", "-D", at.adapter, "-m", str(maximum), "-w", str(width)),
            required=(*(rf"LimitTest: {what}: {maximum}\b" for what in counted),
                      r"recv buffers posted per EP: [1-9]",
                      r"LimitTest: (LMR of 0x\w+ bytes OK|Largest LMR was 0x[1-9a-f]\w*)"),
            forbidden=DAPLTEST_FORBIDDEN,
            benign=(r"dat_ep_post_recv fails: DAT_(INSUFFICIENT_RESOURCES|QUEUE_FULL)",
                    r"ibv_reg_mr of 1073741824 bytes at \S+ failed: Cannot allocate memory",
                    r"DT_BpoolAlloc: dat_lmr_create failed DAT_INSUFFICIENT_RESOURCES",
                    r"\(failed attempting 0x40000000 bytes\)"),
        ),),
        ports=(*DAPLTEST_PORTS, *range(DAPLTEST_LIMIT_PORT, DAPLTEST_LIMIT_PORT + maximum)),
        tags=frozenset({"default", "short"} | ({"vm"} if width == 1 else set())),
        about=f"dapltest -T L -m {maximum} -w {width}",
    )


# The functional sets: how many cases each has. Its own verdict is not enough: it says PASS after
# a call of its own failed on the way, and then prints which.
FUNCTIONAL_SETS = {"pz": 3, "queryinfo": 18, "endpoint": 3, "connmgt": 2, "hwconn": 4, "mem": 5}


def functional(at: Place, feature: str, count: int, foreign_libdat2: bool) -> Case:
    numbers = list(range(count))
    if feature == "queryinfo" and foreign_libdat2:
        # These hand an adapter's handle to a query of something else, which only we survive.
        numbers = [number for number in numbers if number not in (13, 15, 17)]
    picked = () if len(numbers) == count else tuple(f"case{number}" for number in numbers)
    return Case(
        name=f"dapltest-F-{feature}",
        clients=(Part(
            argv=("dapltest", "-T", "F", "-D", at.adapter, "-f", feature, *picked),
            required=tuple(rf"case: {number}\n(?:(?!Function feature)[\s\S])*?"
                           r"^Result: (PASS|UNSUPP)" for number in numbers),
            forbidden=(r"Result: FAIL", r"failed in file", r"dat_ia_close fails",
                       r"Destroy bpool fails", r"not get expected result",
                       r"bad disconnect event", r"don't know this"),
        ),),
        ports=DAPLTEST_PORTS,
        tags=frozenset({"fft"}),
        about=f"dapltest -T F -f {feature}",
    )


def dapltest_cases(at: Place, foreign_libdat2: bool) -> list[Case]:
    sends = "client SR 256 server SR 256"
    everything = ("client SR 1024 server SR 1024 client RW 4096 server RW 4096 "
                  "client RR 1024 server RR 1024")
    transactions = {
        "SR": f"-i 100 -t 1 -w 1 {sends}",
        "SR-segments": "-i 100 -V client SR 1024 3 server SR 1536 2",
        "RW": f"-i 100 -V client RW 4096 1 server RW 2048 4 {sends}",
        "RR": f"-i 100 client RR 4096 1 server RR 1024 2 {sends}",
        "mix": f"-i 100 -V {everything}",
        "big": "-i 20 -V client RW 65536 1 server RR 65536 1 client SR 16384 4 server SR 16384 4",
        "poll": f"-i 100 -P -V {everything}",
        "reap": f"-i 100 -V client SR 1024 3 -f server SR 2048 1 -f {sends}",
        "rsp": f"-i 100 -r {sends}",
        "1x8": f"-i 50 -t 1 -w 8 -V {everything}",
        "4x8": f"-i 50 -t 4 -w 8 {sends}",
        "4x8-mix": f"-i 20 -t 4 -w 8 -V {everything}",
        "4x8-poll": f"-i 20 -t 4 -w 8 -P -V {everything}",
    }
    smoke = {"SR", "mix"}
    vm = {"SR-segments", "mix", "1x8"}

    def tags(name: str) -> str:
        return "default short" + " smoke" * (name in smoke) + " vm" * (name in vm)

    cases = [transaction(at, name, options, tags(name)) for name, options in transactions.items()]
    cases += [performance(at, operation, mode)
              for mode in ("b", "p") for operation in ("RW", "RR")]
    cases += [limits(at, "dapltest-L", 1), limits(at, "dapltest-L-w8", 8)]
    cases.append(dapltest(at, "dapltest-Q", (), (), r"Service Point Ready",
                          tags="default short smoke vm"))
    cases += [functional(at, feature, count, foreign_libdat2)
              for feature, count in FUNCTIONAL_SETS.items()]
    return cases


def all_cases(at: Place, foreign_libdat2: bool = False) -> list[Case]:
    """Every case there is, in the order in which they are run."""
    return [
        *dtest_cases(at),
        dtestcm(at, "dtestcm", 1000, 100, "default short"),
        dtestcm(at, "dtestcm-100", 100, 10, "vm"),
        dtestcm(at, "dtestcm-50", 50, 10, "smoke"),
        *dapltest_cases(at, foreign_libdat2),
        dtestsrq(at, "dtestsrq-S0", "-S 0 -c 4 -B 10 -b 2048"),
        dtestsrq(at, "dtestsrq", "-c 4 -B 10 -b 2048"),
        dtestx(at),
        dtestx_datagrams(at, "dtestx-u", (), "dtestx: datagrams of one endpoint on each side"),
        dtestx_datagrams(at, "dtestx-u-m", ("-m",),
                         "dtestx: datagrams of one endpoint to four, and back"),
    ]
