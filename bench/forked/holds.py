import os, time
held = os.urandom(100 << 20)
open("up", "w").close()
last = time.monotonic()
while True:
    time.sleep(0.002)
    now = time.monotonic()
    if now - last > 0.02:
        with open("gaps", "a") as f:
            f.write("%.6f %.6f\n" % (now - last, time.time()))
    last = now
