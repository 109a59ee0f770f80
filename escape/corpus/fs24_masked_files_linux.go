package corpus

import (
	"os"

	"cloister/escape"
)

func fs24() escape.Case {
	return escape.Case{
		ID: "FS-24", Class: "masked files", Attack: "read what /proc and /sys tell of the host's kernel and its processes; write into cgroups",
		Source: "SandboxBench; Docker's masked paths", Layers: []string{"view"},
		Except: map[escape.Column]string{escape.MicroVM: "what they tell is of the guest's own kernel"},
		Tries: func(escape.Inside) []escape.Try {
			var out []escape.Try
			for _, path := range []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/interrupts", "/proc/kallsyms", "/proc/modules", "/proc/config.gz", "/proc/kmsg", "/proc/latency_stats"} {
				control, why := here(path, escape.ByRoot)
				if fi, err := os.Stat(path); err == nil && fi.Size() == 0 && path == "/proc/kmsg" {
					control, why = escape.ByNobody, "reading it waits"
				}
				out = append(out, escape.Try{Name: "read " + path, Control: control, Why: why, Do: func() error { return readSome(path) }})
			}
			for _, path := range []string{"/sys/firmware", "/sys/kernel", "/sys/fs/cgroup", "/sys/class/net", "/sys/devices/virtual/powercap", "/proc/bus", "/proc/irq", "/proc/fs", "/proc/acpi"} {
				control, why := here(path, escape.ByAnybody)
				if entries, err := os.ReadDir(path); err == nil && len(entries) == 0 {
					control, why = escape.ByNobody, path+" is empty on this host"
				}
				out = append(out, escape.Try{Name: "list " + path, Control: control, Why: why, Do: func() error {
					entries, err := os.ReadDir(path)
					if err == nil && len(entries) == 0 {
						return escape.ErrNothing
					}
					return err
				}})
			}
			return out
		},
	}
}

// readSome reads the beginning of a file; kmsg and the like wait for more.
func readSome(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|0o4000, 0) // O_NONBLOCK
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := f.Read(make([]byte, 256))
	if n == 0 {
		if err != nil && err.Error() != "EOF" {
			return err
		}
		return escape.ErrNothing
	}
	return nil
}
