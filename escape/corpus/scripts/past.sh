set +e
me=$PWD
echo mine >st20-only
echo payload >main.go
for n in /proc/1/root /proc/self/root; do echo past >$n$me/main.go; done
umount "$me"; umount -l "$me"; mount -o remount,rw "$me"; mount -t tmpfs none "$me"
ls -d /.cloister/stage/* /.cloister/u* && echo seen the stage
find / \( -path /proc -o -path /usr \) -prune -o -name st20-only -print 2>/dev/null | grep -v "^$me/" && echo seen a layer
mknod main.go.gone c 0 0 && echo made a whiteout
for c in "$me" /; do
  python3 -c 'import ctypes,os,struct,sys
libc=ctypes.CDLL(None,use_errno=True)
h=ctypes.create_string_buffer(struct.pack("Ii",120,0)+b"\0"*120); m=ctypes.c_int()
at=libc.name_to_handle_at(-100,sys.argv[1].encode(),h,ctypes.byref(m),0)
fd=os.open(sys.argv[1],os.O_RDONLY)
got=libc.open_by_handle_at(fd,h,os.O_RDONLY)
print("opened by handle" if got>=0 else "not by handle")' "$c" 2>/dev/null
done
python3 -c 'import os
for n,v in (("user.overlay.opaque",b"y"),("user.overlay.whiteout",b"y"),("user.overlay.redirect",b"/etc"),("trusted.overlay.opaque",b"y")):
  try: os.setxattr("folder",n,v); print("set",n)
  except OSError: pass'
rm -r folder; mkdir folder
true
