package corpus

import (
	"os"

	"cloister/escape"
)

func fs23() escape.Case {
	return escape.Case{
		ID: "FS-23", Class: "kernel knobs", Attack: "open for writing what steers the kernel: core_pattern, modprobe, sysrq, binfmt_misc, uevent_helper, forwarding",
		Source: "SandboxBench proc_writable; CVE-2022-0492", Layers: []string{"view", "landlock"},
		Tries: func(escape.Inside) []escape.Try {
			var out []escape.Try
			for _, path := range []string{
				"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger", "/proc/sys/fs/binfmt_misc/register", "/sys/kernel/uevent_helper",
				"/proc/sys/vm/drop_caches", "/proc/sys/kernel/ns_last_pid", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/hostname",
			} {
				control, why := here(path, escape.ByRoot)
				out = append(out, escape.Try{Name: "open " + path, Control: control, Why: why, Do: func() error { return openFor(path, os.O_WRONLY) }})
			}
			return out
		},
	}
}
