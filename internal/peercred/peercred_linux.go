package peercred

import "golang.org/x/sys/unix"

// SO_PEERCRED, unix(7): fixed by the kernel at connect(2) or listen(2).
func ask(fd int) (Cred, error) {
	u, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return Cred{}, err
	}
	return Cred{UID: int(u.Uid), PID: int(u.Pid)}, nil
}
