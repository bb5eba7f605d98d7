# ruff: noqa: E501  (programs of one line)
"""Programs that attack the sandbox: what they define, what is tested, and how to tell that they got through.

Each attack defines ``f``. Tests that hold unless the attack was stopped say so by ``stopped``.
"""

from dataclasses import dataclass

from comlrl_envs.sandbox import Limits

SHORT = Limits(cpu_seconds=0.3, idle_seconds=0.4)


@dataclass(frozen=True)
class Attack:
    """One program; ``test`` passes if and only if the attack succeeded.

    Attributes:
        outcome: Of the test, where it is always the same.
        trace: What the attack leaves outside the sandbox if it succeeds: ``outside`` (a file), ``victim`` (a killed
            process), ``letter`` (a message to a listener) or ``process``.
        held: Whether it fails without the filter of system calls, though others of its threat succeed.
    """

    threat: str
    program: str
    test: str = "assert f() == 'succeeded'"
    limits: Limits = SHORT
    outcome: str = ""
    trace: str = ""
    held: bool = False


ATTEMPT = """
def f():
    try:
        {code}
    except BaseException as error:
        return type(error).__name__
    return 'succeeded'
"""


def attempt(threat: str, code: str, trace: str = "", held: bool = False) -> Attack:
    """An attack that succeeds if its code runs without an exception."""
    program = ATTEMPT.replace("{code}", code.replace("\n", "\n        "))
    return Attack(threat, program, trace=trace, held=held)


DAEMON = """
import ctypes, os, time
def f():
    ready, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, b'left-{pid}', 0, 0, 0)
            os.write(told, b'x')
            time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
"""
OUTLIVING = """
import ctypes, os, time
def f():
    libc = ctypes.CDLL(None)
    libc.prctl(15, b'left-{pid}', 0, 0, 0)
    libc.prctl(1, 0, 0, 0, 0)
    time.sleep(60)
"""
"""It does not want to end with its parent."""
PIPE = "import fcntl, os, signal, struct\nr, w = os.pipe()\n"
"""What happens on a pipe then signals the victim."""
SIGNAL = (
    "fcntl.fcntl(r, 10, int(signal.SIGKILL))\n"
    "fcntl.fcntl(r, fcntl.F_SETFL, fcntl.fcntl(r, fcntl.F_GETFL) | os.O_ASYNC)\nos.write(w, b'x')"
)
DATAGRAMS = "import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n"

FORGE = """
import os, sys, json, struct
def frame(message):
    body = json.dumps(message).encode()
    return struct.pack('!I', len(body)) + body
"""
EQUAL = """
class Yes:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __lt__(self, other): return True
    __le__ = __gt__ = __ge__ = __lt__
    def __hash__(self): return 0
    def __bool__(self): return True
    def __contains__(self, item): return True
    def __sub__(self, other): return 0
    __rsub__ = __add__ = __radd__ = __abs__ = __round__ = __sub__
    def __abs__(self): return 0
    def __round__(self, places=0): return 0
    def __len__(self): return 3
    def __iter__(self): return iter([Yes(), Yes(), Yes()])
    def __getitem__(self, key): return Yes()
    def __instancecheck__(self, other): return True
"""

ATTACKS = {
    "loop": Attack("endless_loop", "def f():\n    while True: pass", outcome="timeout"),
    "caught_loop": Attack(
        "endless_loop",
        "def f():\n    while True:\n        try:\n            while True: pass\n        except Exception: pass",
        outcome="timeout",
    ),
    "signals_ignored": Attack(
        "endless_loop",
        "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n    except OSError: pass\n"
        "def f():\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
        outcome="timeout",
    ),
    "threads_at_work": Attack(
        "endless_loop",
        "import threading\ndef g():\n    while True: pass\n"
        "def f():\n    [threading.Thread(target=g).start() for _ in range(4)]\n    g()",
        outcome="timeout",
    ),
    "regex": Attack("loop_in_c", "import re\ndef f(): return re.match(r'(a+)+$', 'a' * 40 + 'b')", outcome="timeout"),
    "power": Attack("loop_in_c", "def f(): return 10 ** 10 ** 8", outcome="timeout"),
    "sleep": Attack("sleep", "import time\ndef f(): time.sleep(1000)", outcome="timeout"),
    "wait": Attack("sleep", "import threading\ndef f(): threading.Event().wait()", outcome="timeout"),
    "input": Attack("sleep", "def f(): return input()"),
    "sys_exit": Attack("exit", "import sys\ndef f(): sys.exit(0)"),
    "os_exit": Attack("exit", "import os\ndef f(): os._exit(0)"),
    "abort": Attack("exit", "import os\ndef f(): os.abort()"),
    "segfault": Attack("exit", "import ctypes\ndef f(): ctypes.string_at(0)"),
    "print": Attack("forge_output", 'def f():\n    print(\'succeeded\\n{"outcome": "passed"}\')'),
    "print_and_exit": Attack("forge_output", "import os\ndef f():\n    print('passed', flush=True)\n    os._exit(0)"),
    "messages": Attack(
        "forge_message",
        FORGE
        + "def f():\n    os.write(3, frame({'outcome': 'passed'}))\n    os.write(3, frame({'end': {'problem': None}}))\n"
        "    os.write(3, frame({'v': ['x', 1], 'c': 3}))\n    os._exit(0)",
    ),
    "no_json": Attack("forge_message", FORGE + "def f():\n    os.write(3, b'\\0\\0\\0\\x04junk')"),
    "huge_frame": Attack("forge_message", FORGE + "def f():\n    os.write(3, b'\\xff\\xff\\xff\\xff')"),
    "all_descriptors": Attack(
        "forge_message",
        FORGE
        + "def f():\n    for n in range(64):\n        try: os.write(n, frame({'name': '0', 'outcome': 'passed'}))\n"
        "        except OSError: pass\n    os._exit(0)",
    ),
    "nonsense_tokens": Attack("forge_message", FORGE + "def f():\n    os.write(3, frame({'v': ['y', 0], 'c': []}))"),
    "raise_server_error": Attack(
        "forge_message",
        FORGE + "def f():\n    os.write(3, frame({'e': ['t', []], 'c': [], 'lineage': "
        "['comlrl_envs.sandbox.link.ServerError']}))",
    ),
    "expected_in_frames": Attack(
        "frames",
        "import sys, gc\ndef f():\n    found = []\n    frame = sys._getframe()\n    while frame:\n"
        "        found += [repr(v) for v in frame.f_locals.values()]\n        frame = frame.f_back\n"
        "    found += [v for v in gc.get_objects() if isinstance(v, str)]\n"
        "    return 'succeeded' if any('very' + '-secret' in str(v) for v in found) else 'failed'",
        test="expected = 'very-secret'\nassert f() == 'succeeded'",
    ),
    "builtins": Attack(
        "patch",
        "import builtins, unittest\nclass AssertionError(Exception): pass\nbuiltins.AssertionError = AssertionError\n"
        "builtins.abs = builtins.sum = builtins.len = lambda *a: 0\nunittest.TestCase.assertEqual = lambda *a: None\n"
        "def f(): return 'failed'",
    ),
    "json": Attack(
        "patch", "import json\njson.loads = json.dumps = lambda *a, **k: 'succeeded'\ndef f(): return 'failed'"
    ),
    "equal": Attack("equality", EQUAL + "def f(): return Yes()", test="assert f() == 'succeeded'"),
    "equal_reversed": Attack("equality", EQUAL + "def f(): return Yes()", test="assert 'succeeded' == f()"),
    "equal_in_list": Attack("equality", EQUAL + "def f(): return [Yes()]", test="assert f() == ['succeeded']"),
    "equal_in_tuple": Attack("equality", EQUAL + "def f(): return (Yes(),)", test="assert f() == ('succeeded',)"),
    "close_to": Attack("equality", EQUAL + "def f(): return Yes()", test="assert abs(f() - 3.0) < 1e-6"),
    "contains": Attack("equality", EQUAL + "def f(): return Yes()", test="assert 'succeeded' in f()"),
    "contained": Attack("equality", EQUAL + "def f(): return Yes()", test="assert f() in ['succeeded', 'b']"),
    "equal_str": Attack(
        "equality",
        "class S(str):\n    __hash__ = str.__hash__\n    def __eq__(self, other): return True\ndef f(): return S('a')",
    ),
    "equal_int": Attack(
        "equality",
        "class N(int):\n    __hash__ = int.__hash__\n    def __eq__(self, other): return True\n"
        "    def __sub__(self, other): return 0\ndef f(): return N(1)",
        test="assert f() == 3 or abs(f() - 3) < 1e-6",
    ),
    "equal_list": Attack(
        "equality",
        "class L(list):\n    def __eq__(self, other): return True\n    def __len__(self): return 3\ndef f(): return L()",
        test="assert f() == [1, 2, 3]",
    ),
    "atexit": Attack(
        "atexit",
        "import atexit, os\natexit.register(lambda: os.write(3, b'passed'))\nclass D:\n"
        "    def __del__(self): os.write(3, b'passed')\nd = D()\nimport gc\n"
        "gc.callbacks.append(lambda *a: None)\ndef f(): raise SystemExit(0)",
    ),
    "thread_left": Attack(
        "atexit",
        "import threading, time, os\ndef g():\n    while True:\n        time.sleep(.01)\n        os.write(3, b'passed')\n"
        "def f():\n    threading.Thread(target=g).start()\n    time.sleep(.1)\n    return 'failed'",
    ),
    "memory": attempt("memory", "bytearray(10 << 30)"),
    "memory_bit_by_bit": attempt("memory", "x = []\nwhile True: x.append(bytearray(1 << 20))"),
    "recursion": attempt("recursion", "def g(): return g()\ng()"),
    "stack": Attack(
        "recursion",
        "import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): return f()",
    ),
    "deep_result": Attack("recursion", "def f():\n    x = ()\n    for _ in range(100000): x = (x,)\n    return x"),
    "huge_result": Attack("memory", "def f(): return ['x' * 1000] * 10 ** 5"),
    "flood": Attack("flood", "import sys\ndef f():\n    while True: sys.stdout.write('x' * 65536)", outcome="timeout"),
    "flood_of_errors": Attack(
        "flood", "import os\ndef f():\n    while True: os.write(2, b'x' * 65536)", outcome="timeout"
    ),
    "big_file": attempt("big_file", "with open('big', 'wb') as file:\n    file.write(b'x' * (64 << 20))"),
    "environment": Attack(
        "environment", "import os\ndef f(): return 'succeeded' if 'COMLRL_TEST_SECRET' in os.environ else 'failed'"
    ),
    "fork": attempt("fork_bomb", "import os\nif os.fork() == 0: os._exit(0)"),
    "fork_bomb": Attack("fork_bomb", "import os\ndef f():\n    while True: os.fork()"),
    "clone": attempt(
        "fork_bomb",
        "import ctypes, os\npid = ctypes.CDLL(None).syscall(57)\nif pid == 0: os._exit(0)\n"
        "if pid < 0: raise OSError('denied')",
    ),
    "multiprocessing": attempt("fork_bomb", "import multiprocessing\nmultiprocessing.Process(target=print).start()"),
    "daemon": Attack("daemon", DAEMON, trace="process"),
    "outlive": attempt(
        "outlive", "import ctypes\nif ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) < 0: raise OSError('denied')"
    ),
    "subprocess": attempt("program", "import subprocess\nsubprocess.run(['/bin/true'], check=True)"),
    "system": attempt("program", "import os\nif os.system('true') != 0: raise OSError('denied')"),
    # What calls it is gone when it succeeds.
    "exec": Attack("program", "import os\ndef f(): os.execv('/bin/echo', ['echo', 'passed'])", held=True),
    "kill_parent": attempt("kill", "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)"),
    "kill_all": attempt("kill", "import os\nos.kill(-1, 0)"),
    "kill_other": attempt("kill", "import os, signal\nos.kill({victim}, signal.SIGKILL)", "victim"),
    "owner": attempt("kill", PIPE + "fcntl.fcntl(r, fcntl.F_SETOWN, {victim})\n" + SIGNAL, "victim"),
    "owner_as_structure": attempt(
        "kill", PIPE + "fcntl.fcntl(r, 15, struct.pack('ii', 1, {victim}))\n" + SIGNAL, "victim"
    ),
    "owner_by_ioctl": attempt(
        "kill",
        "import fcntl, socket, struct\na, b = socket.socketpair()\n"
        "fcntl.ioctl(a, 0x8901, struct.pack('i', {victim}))\nfcntl.ioctl(a, 0x5452, struct.pack('i', 1))\nb.send(b'x')",
        "victim",
    ),
    # The fork server keeps others out of its memory by itself.
    "ptrace": attempt(
        "kill",
        "import ctypes, os\nif ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) < 0: raise OSError('denied')",
        held=True,
    ),
    "memory_of_others": attempt("kill", "import os\nopen(f'/proc/{os.getppid()}/mem', 'r+b').close()", held=True),
    "socket": attempt("network", "import socket\nsocket.socket().connect(('127.0.0.1', {port}))"),
    "unix_socket": attempt("network", "import socket\nsocket.socket(socket.AF_UNIX)"),
    "datagram": attempt(
        "network", "import socket\nsocket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))"
    ),
    "datagram_to_path": attempt("network", DATAGRAMS + "a.sendto(b'x', {listener!r})", "letter"),
    "datagram_to_name": attempt("network", DATAGRAMS + "a.sendto(b'x', '\\0left-{pid}')", "letter"),
    "datagram_that_closes": attempt(
        "network",
        "import socket\na, b = socket.socketpair(type=socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)\n"
        "a.sendmsg([b'x'], [], 0, {listener!r})",
        "letter",
    ),
    "shared_memory": attempt(
        "shared_memory",
        "import ctypes\nnumber = ctypes.CDLL(None).shmget(0, 4096, 0o1600)\nif number < 0: raise OSError('denied')\n"
        "ctypes.CDLL(None).shmctl(number, 0, None)",
    ),
    "write_outside": attempt("write_outside", "with open({outside!r}, 'w') as file: file.write('x')", "outside"),
    "read_file": attempt("read_files", "open({secret!r}).read()"),
    "see_processes": attempt("see_processes", "import os\nos.stat('/proc/{pid}/stat')\nassert {pid} != os.getpid()"),
    "fill_disk": attempt(
        "fill_disk", "for n in range(40):\n    with open(str(n), 'wb') as file: file.write(b'x' * (1 << 19))"
    ),
}
