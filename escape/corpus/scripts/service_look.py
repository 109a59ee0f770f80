import os, socket, sys, glob
def there(*names): return " ".join(n for n in names if os.path.exists(n))
def said(host, port, ask=b"GET / HTTP/1.1\r\nHost: canary\r\nConnection: close\r\n\r\n"):
    try:
        s = socket.create_connection((host, port), timeout=10)
        s.sendall(ask)
        return s.recv(200).decode().split("\r\n")[0]
    except OSError as e:
        return "error " + str(e)
status = open("/proc/self/status").read()
print("caps", [l for l in status.splitlines() if l.startswith(("CapEff", "NoNewPrivs", "Seccomp:"))])
print("host", there("/hostroot", "/var/run/docker.sock", "/run/docker.sock", "/dev/kvm", "/proc/1/root/hostroot"))
print("project", there(sys.argv[2], sys.argv[2] + "/secret"))
print("home", there(os.path.expanduser("~/of-the-agent")))
print("token", os.environ.get("TOKEN"), os.environ.get("HTTP_PROXY"))
print("net", sorted(n for _, n in socket.if_nameindex()))
print("canary", said("127.0.0.1", int(sys.argv[1])), "/", said("canary.test", int(sys.argv[1])))
print("near", [n for n in range(1, 30) if said("203.0.113.%d" % n, 7000, b"") == "other"])
print("named", said("db", 7000, b""), said("other", 7000, b""))
open("/data/marker", "a").write("marked\n")
print("marks", len(open("/data/marker").read().split()))
for name in glob.glob("/data/of-the-other"): print("poisoned", name)
print("friend", said("friend", 7000, b""))
