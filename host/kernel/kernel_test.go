package kernel_test

import (
	"testing"
	"testing/fstest"

	"cloister/host/kernel"
)

// healthy is a host on which every check is ok.
func healthy() fstest.MapFS {
	m := fstest.MapFS{
		"proc/sys/kernel/seccomp/actions_avail": {Data: []byte("kill_process kill_thread trap errno user_notif trace log allow\n")},
		"proc/sys/kernel/core_pattern":          {Data: []byte("core\n")},
	}
	for _, kind := range []string{"user", "mnt", "net", "pid", "ipc", "uts", "cgroup"} {
		m["proc/sys/user/max_"+kind+"_namespaces"] = &fstest.MapFile{Data: []byte("1000\n")}
	}
	return m
}

func TestChecks(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(m fstest.MapFS, h *kernel.Host)
		id     string
		want   kernel.Status
	}{
		{"healthy", func(fstest.MapFS, *kernel.Host) {}, "", kernel.OK},
		{"Debian's switch", set("proc/sys/kernel/unprivileged_userns_clone", "0"), "userns", kernel.Fail},
		{"Debian's switch does not bind root", func(m fstest.MapFS, h *kernel.Host) {
			set("proc/sys/kernel/unprivileged_userns_clone", "0")(m, h)
			h.Root = true
		}, "", kernel.OK},
		{"no network namespaces left", set("proc/sys/user/max_net_namespaces", "0"), "userns", kernel.Fail},
		{"not built in", func(m fstest.MapFS, _ *kernel.Host) { delete(m, "proc/sys/user/max_user_namespaces") }, "userns", kernel.Fail},
		{"Ubuntu 24.04", set("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"), "apparmor-userns", kernel.Fail},
		{"Ubuntu 24.04 with a profile", func(m fstest.MapFS, h *kernel.Host) {
			set("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")(m, h)
			set("etc/apparmor.d/cloister", "")(m, h)
		}, "", kernel.OK},
		{"no Landlock", func(_ fstest.MapFS, h *kernel.Host) { h.Landlock = 0 }, "landlock", kernel.Fail},
		{"old Landlock", func(_ fstest.MapFS, h *kernel.Host) { h.Landlock = 4 }, "landlock", kernel.Fail},
		{"Landlock without scopes", func(_ fstest.MapFS, h *kernel.Host) { h.Landlock = 5 }, "landlock", kernel.Warn},
		{"old kernel", func(_ fstest.MapFS, h *kernel.Host) { h.Release = "5.10.0-30-amd64" }, "kernel", kernel.Fail},
		{"no seccomp", func(m fstest.MapFS, _ *kernel.Host) { delete(m, "proc/sys/kernel/seccomp/actions_avail") }, "seccomp", kernel.Fail},
		{"io_uring open", set("proc/sys/kernel/io_uring_disabled", "0"), "kernel.io_uring_disabled", kernel.Warn},
		{"a setting that is no number", set("proc/sys/kernel/kptr_restrict", "x"), "kernel.kptr_restrict", kernel.Warn},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, h := healthy(), kernel.Host{Release: "6.12.3", Landlock: 6}
			tt.change(m, &h)
			h.FS = m
			for _, c := range kernel.Checks(h) {
				want := kernel.OK
				if c.ID == tt.id {
					want = tt.want
				}
				if c.Status != want {
					t.Errorf("%s: %s (%s), want %s", c.ID, c.Status, c.Detail, want)
				}
				if c.Status == kernel.Fail && c.Fix == "" {
					t.Errorf("%s fails without a fix", c.ID)
				}
			}
		})
	}
}

func set(path, value string) func(fstest.MapFS, *kernel.Host) {
	return func(m fstest.MapFS, _ *kernel.Host) { m[path] = &fstest.MapFile{Data: []byte(value + "\n")} }
}
