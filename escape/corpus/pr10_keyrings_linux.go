package corpus

import (
	"syscall"

	"golang.org/x/sys/unix"

	"cloister/escape"
)

func pr10() escape.Case {
	return escape.Case{
		ID: "PR-10", Class: "keyrings", Attack: "add, request, read, search and join keys, which no namespace separates",
		Source: "HARDENING 5.1", Layers: []string{"seccomp"},
		Tries: func(escape.Inside) []escape.Try {
			session := uintptr(0xfffffffd) // KEY_SPEC_SESSION_KEYRING
			gone := errnos(syscall.ENOKEY, syscall.EKEYREVOKED, syscall.EACCES, syscall.EINVAL, syscall.EDQUOT)
			return calls(
				call{name: "add_key", nr: unix.SYS_ADD_KEY, args: []uintptr{mem("user"), mem("escape-pr10"), mem("x"), 1, uintptr(0xffffffff)}, open: gone},
				call{name: "request_key", nr: unix.SYS_REQUEST_KEY, args: []uintptr{mem("user"), mem("escape-absent"), 0, 0}, open: gone},
				call{name: "keyctl read", nr: unix.SYS_KEYCTL, args: []uintptr{unix.KEYCTL_READ, session, 0, 0}, open: gone},
				call{name: "keyctl search", nr: unix.SYS_KEYCTL, args: []uintptr{unix.KEYCTL_SEARCH, session, mem("user"), mem("escape-absent"), 0}, open: gone},
				call{name: "keyctl join", nr: unix.SYS_KEYCTL, args: []uintptr{unix.KEYCTL_JOIN_SESSION_KEYRING, 0}, open: gone},
			)
		},
	}
}
