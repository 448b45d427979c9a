"""What hostile candidates do, as programs for the runner's Python. Each is bounded by itself, far above the limits that
are to hold it and far below what would harm a machine; one that comes to its own bound prints ``unstopped``."""

import os


def _stubborn(program: str) -> str:
    """A program with a ``fork`` that a limit on processes does not end: the deadline alone is to end it."""
    return f"""
import os
def fork():
    while True:
        try: return os.fork()
        except OSError: pass
{program}"""


FORK_BOMB = _stubborn("""
import time
if fork(): time.sleep(600)
for _ in range(11):
    try: os.fork()
    except OSError: pass
while True:
    if fork(): os._exit(0)
""")
SESSION_BOMB = FORK_BOMB.replace("try: os.fork()", "try: os.fork() or os.setsid()")
LEFT_BEHIND = SESSION_BOMB.replace("time.sleep(600)", "os._exit(0)")
"""Its command ends at once and well; the bomb goes on."""
DAEMON = _stubborn("""
import signal, time
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
if fork() == 0:
    os.setsid()
    if fork() == 0:
        while True:
            open('beat', 'a').write('x')
            time.sleep(0.01)
    os._exit(0)
time.sleep(600)
""")
HOPPER = _stubborn("""
import time
for _ in range(20):
    if fork() == 0:
        while True:
            try: os.setsid()
            except OSError: pass
            if fork(): os._exit(0)
time.sleep(600)
""")
SESSION_STORM = _stubborn("""
import time
for _ in range(50):
    if fork() == 0:
        while True:
            try: os.setsid()
            except OSError: pass
time.sleep(600)
""")
"""In bubblewrap each call waits for the leader of the command (``sandboxes.inside.filter``)."""
ENDLESS_OUTPUT = """
import os
block = b'x' * 65536
while True:
    os.write(1, block)
    os.write(2, block)
"""
ENDLESS = {
    "fork bomb": FORK_BOMB,
    "fork bomb of sessions": SESSION_BOMB,
    "daemon that ignores signals": DAEMON,
    "processes that hop to new numbers": HOPPER,
    "sessions asked for without end": SESSION_STORM,
    "endless output": ENDLESS_OUTPUT,
}
"""Attacks on time: nothing but the deadline ends them."""

MEMORY = {
    "memory bomb": """
kept = []
for _ in range(128): kept.append(bytearray(b'x') * (16 << 20))
print('unstopped')
""",
    "memory bomb of many processes": """
import os, time
for _ in range(16):
    if os.fork() == 0:
        kept = bytearray(b'x') * (96 << 20)
        time.sleep(600)
raise SystemExit(os.wait()[1] and 1)
""",
    "shared memory": """
import mmap, os, time
for _ in range(16):
    if os.fork() == 0:
        kept = mmap.mmap(-1, 96 << 20)
        for at in range(0, len(kept), 4096): kept[at] = 1
        time.sleep(600)
raise SystemExit(os.wait()[1] and 1)
""",
    "files in memory": """
import os
block, kept, taken = b'x' * (1 << 20), [], 0
while taken < 1024:
    file = os.memfd_create('m')
    kept.append(file)
    for _ in range(32): os.write(file, block); taken += 1
print('unstopped')
""",
    "buffers of sockets": """
import os, socket, time
for _ in range(8):
    if os.fork() == 0:
        kept = []
        while len(kept) < 480:
            pair = socket.socketpair()
            kept.append(pair)
            for end in pair:
                end.setblocking(False)
                try:
                    while end.send(b'x' * 4096): pass
                except OSError: pass
        time.sleep(600)
raise SystemExit(os.wait()[1] and 1)
""",
    # Nobody takes the connections: what was sent lies in sockets that no process holds.
    "connections that nobody accepts": """
import os, socket, time
kept, taken = [], 0
for number in range(8):
    kept.append(socket.socket(socket.AF_UNIX))
    kept[-1].bind(chr(0) + str(number))
    kept[-1].listen(400)
    for _ in range(400):
        one = socket.socket(socket.AF_UNIX)
        one.setblocking(False)
        try:
            one.connect(chr(0) + str(number))
            while True: taken += one.send(b'x' * 4096)
        except OSError: pass
        one.close()
if taken < 500 << 20: raise SystemExit(1)
time.sleep(3)
print('unstopped')
""",
    # The zero page is nobody's memory, but the way to it is.
    "page tables": """
import ctypes, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
start = libc.mmap(None, 1 << 40, 1, 0x4022, -1, 0)
libc.madvise(start, 1 << 40, 15)
for number in range(250_000): ctypes.c_char.from_address(start + (number << 21)).value
time.sleep(3)
print('unstopped')
""",
    "huge pages that pipes hold": """
import ctypes, os, platform, time
libc, kept = ctypes.CDLL(None, use_errno=True), []
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
for number in range(480):
    if number % 16 == 0: kept.append(os.pipe())
    start = libc.mmap(None, 4 << 20, 3, 0x22, -1, 0)
    page = -(-start >> 21) << 21
    libc.madvise(page, 2 << 20, 14)
    ctypes.memset(page, 1, 1)
    part = (ctypes.c_size_t * 2)(page, 4096)
    if libc.syscall({'x86_64': 278, 'aarch64': 75}[platform.machine()], kept[-1][1], part, 1, 0) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    libc.munmap(start, 4 << 20)
time.sleep(3)
print('unstopped')
""",
    # The first thread of each process ends, after which the kernel says nothing of the process by its own number.
    "processes without a first thread": """
import ctypes, os, threading, time
held = threading.Event()
def hold():
    kept = bytearray(b'x') * (96 << 20)
    held.set()
    time.sleep(600)
for _ in range(16):
    if os.fork() == 0:
        threading.Thread(target=hold).start()
        held.wait()
        ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)
raise SystemExit(os.wait()[1] and 1)
""",
}

BUFFERS_OF_TCP = """
import socket, time
kept, taken = [], 0
while len(kept) < 900 and taken < 1 << 30:
    with socket.create_server(('127.0.0.1', 0)) as server:
        kept.append(socket.create_connection(server.getsockname()))
        kept.append(server.accept()[0])
    kept[-2].setblocking(False)
    try:
        while True: taken += kept[-2].send(b'x' * 65536)
    except OSError: pass
if taken < 500 << 20: raise SystemExit(1)
time.sleep(3)
print('unstopped')
"""
"""In bubblewrap; in Docker it is the version of cgroups that decides whether they count."""

DISK = {
    "disk filler": """
import os
block, places, number = os.urandom(1 << 20), ('.', '/tmp', os.path.expanduser('~')), 0
while number < 100:
    with open(f'{places[number % 3]}/big{number}', 'wb') as file:
        for _ in range(20): file.write(block)
    number += 1
print('unstopped')
""",
    "sparse files": """
import time
for number in range(100): open(f'sparse{number}', 'wb').truncate(30 << 20)
time.sleep(600)
""",
    "many files": """
for folder in range(200):
    import os
    os.makedirs(f'/tmp/many/{folder}')
    for number in range(500): open(f'/tmp/many/{folder}/{number}', 'w').close()
print('unstopped')
""",
    "deep folders": """
import os, time
for _ in range(400):
    os.mkdir('d')
    os.chdir('d')
time.sleep(600)
""",
    "files without a name": """
import os, time
block, kept = os.urandom(1 << 20), []
for number in range(100):
    file = os.open('gone', os.O_RDWR | os.O_CREAT)
    os.unlink('gone')
    kept.append(file)
    for _ in range(20): os.write(file, block)
print('unstopped')
""",
    # In Docker these are files of the daemon's own, mounted in there.
    "files that every system has": """
import os, time
block = os.urandom(1 << 20)
for path in ('/etc/hosts', '/etc/hostname', '/etc/resolv.conf'):
    with open(path, 'wb') as file:
        for _ in range(20): file.write(block)
time.sleep(6)
print('unstopped')
""",
    "files that are on their way": """
import array, os, socket, time
block, kept = os.urandom(1 << 20), []
for number in range(60):
    kept.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
    file = os.open('gone', os.O_RDWR | os.O_CREAT)
    os.unlink('gone')
    for _ in range(20): os.write(file, block)
    kept[-1][0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [file]))])
    os.close(file)
print('unstopped')
""",
    "folders that nobody may read": """
import os
block = os.urandom(1 << 20)
for number in range(100):
    os.mkdir(f'h{number}')
    with open(f'h{number}/big', 'wb') as file:
        os.chmod(f'h{number}', 0)
        for _ in range(20): file.write(block)
print('unstopped')
""",
}
if os.geteuid() == 0:  # a normal user may not look at what others have mapped
    MEMORY["shared memory that nobody has in its tables"] = """
import mmap, time
kept = []
for _ in range(24):
    kept.append(mmap.mmap(-1, 32 << 20))
    for at in range(0, len(kept[-1]), 4096): kept[-1][at] = 1
    kept[-1].madvise(mmap.MADV_DONTNEED)
time.sleep(3)
print('unstopped')
"""
    # Nobody holds the files open: only a page of each is mapped. (Python's own ``mmap`` would keep them open.)
    DISK["files that are only mapped"] = """
import ctypes, os, time
libc, block = ctypes.CDLL(None, use_errno=True), os.urandom(1 << 20)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mmap.restype = ctypes.c_void_p
for number in range(100):
    file = os.open('gone', os.O_RDWR | os.O_CREAT)
    os.unlink('gone')
    for _ in range(20): os.write(file, block)
    if libc.mmap(None, 4096, 1, 1, file, 0) == ctypes.c_void_p(-1).value: raise OSError('cannot be mapped')
    os.close(file)
    time.sleep(0.02)
print('unstopped')
"""

SHARED_FOLDER = """
import os
block, taken = b'x' * (1 << 20), 0
try:
    for number in range(64):
        with open(f'/dev/shm/f{number}', 'wb') as file:
            for _ in range(32): file.write(block); file.flush(); taken += 1
except OSError: pass
print(taken)
"""
"""Answers how many MiB it could put into /dev/shm."""

REACH_NETWORK = """
import json, socket, sys
tcp, local, reached = *map(json.loads, sys.argv[1:3]), []
for host, port in tcp:
    try: socket.create_connection((host, port), 0.5).close(); reached.append(f'{host}:{port}')
    except OSError: pass
for path in local:
    try:
        with socket.socket(socket.AF_UNIX) as one: one.connect(path.replace('@', chr(0))); reached.append(path)
    except OSError: pass
try: socket.getaddrinfo('example.com', 80); reached.append('names')
except OSError: pass
for family in range(46):
    if family not in (0, 1, 2, 10, 16):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            try: socket.socket(family, kind).close(); reached.append(f'family {family}')
            except OSError: pass
print(json.dumps(reached))
"""
REACH_FILES = """
import hashlib, json, os, sys
wanted, shadow, reached = json.loads(sys.argv[1]), sys.argv[2], []
roots = ['', *(f'/proc/{name}/{link}' for name in os.listdir('/proc') if name.isdigit() for link in ('root', 'cwd'))]
for root in roots:
    for path in wanted:
        try: os.lstat(root + path); reached.append(root + path)
        except OSError: pass
    for up in ('', '../' * 12):
        try: found = hashlib.sha256(open(f'{root}/{up}etc/shadow', 'rb').read()).hexdigest()
        except OSError: continue
        if found == shadow: reached.append('the shadow file')
print(json.dumps(reached))
"""
REACH_PROC = """
import json, os, sys
facts = {'others': [], 'environ': '', 'mounts': open('/proc/self/mountinfo').read()}
for name in filter(str.isdigit, os.listdir('/proc')):
    try: facts['others'].append(open(f'/proc/{name}/cmdline').read())
    except OSError: pass
    try: facts['environ'] += open(f'/proc/{name}/environ').read()
    except OSError: pass
try: open('/proc/1/mem', 'rb').close(); facts['first'] = True
except OSError: facts['first'] = False
print(json.dumps(facts))
"""
REACH_CALLS = """
import ctypes, errno, json, platform
libc, reached = ctypes.CDLL(None, use_errno=True), []
arm = platform.machine() == 'aarch64'
calls = {
    'io_uring_setup': ((425, 425), (1, 0)), 'keyctl': ((250, 219), (0, -3, 1)), 'bpf': ((321, 280), (0, 0, 0)),
    'add_key': ((248, 217), (0, 0, 0, 0, 0)), 'request_key': ((249, 218), (0, 0, 0, 0)),
    'perf_event_open': ((298, 241), (0, 0, -1, -1, 0)), 'userfaultfd': ((323, 282), (1,)),
    'unshare of a user namespace': ((272, 97), (0x10000000,)), 'unshare of mounts': ((272, 97), (0x20000,)),
    'setns': ((308, 268), (0, 0)), 'mount': ((165, 40), (0, 0, 0, 0, 0)), 'pivot_root': ((155, 41), (0, 0)),
    'open_by_handle_at': ((304, 265), (-1, 0, 0)), 'syslog': ((103, 116), (10, 0, 0)),
    'landlock_create_ruleset': ((444, 444), (0, 0, 1)), 'open_tree': ((428, 428), (-100, 0, 0)),
    'ptrace of the first process': ((101, 117), (16, 1, 0, 0)),
}
for name, (numbers, arguments) in calls.items():
    answer = libc.syscall(numbers[arm], *(ctypes.c_long(one) for one in arguments))
    if answer >= 0 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS):
        reached.append(f'{name}: {answer} {errno.errorcode.get(ctypes.get_errno())}')
print(json.dumps(reached))
"""
