package corpus

import (
	"cloister/escape"
)

func nw10() escape.Case {
	return escape.Case{
		ID: "NW-10", Class: "path sockets", Attack: "connect to sockets of docker, podman, containerd, libvirt, D-Bus, systemd, agents, displays and of the test itself",
		Source: "greywall #32, #55; firejail #796", Layers: []string{"view"},
		Tries: func(in escape.Inside) []escape.Try {
			out := []escape.Try{
				net1("the test's own", func() error { return talk("unix", in.Path, "hello NW-10") }),
				net1("the guardian's", func() error { return talk("unix", in.Socket, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n") }),
			}
			for i := range out {
				out[i].Control, out[i].Why = "", ""
			}
			out[1].Control, out[1].Why = escape.ByNobody, "the control's world has no guardian"
			for _, path := range []string{
				"/run/docker.sock", "/var/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/libvirt/libvirt-sock", "/run/dbus/system_bus_socket",
				"/run/systemd/private", "/run/systemd/notify", "/run/user/1000/bus", "/tmp/.X11-unix/X0", "/run/user/1000/wayland-0", "/run/user/1000/pipewire-0", "/run/nscd/socket", "/var/run/nscd/socket", "/run/udev/control", "/run/snapd.socket",
			} {
				control, why := here(path, escape.ByRoot)
				if control == escape.ByRoot && talk("unix", path, "\n") != nil {
					control, why = escape.ByNobody, "nobody answers there on this host"
				}
				out = append(out, escape.Try{Name: path, Held: gone(), Control: control, Why: why, Do: func() error { return talk("unix", path, "\n") }})
			}
			return out
		},
	}
}
