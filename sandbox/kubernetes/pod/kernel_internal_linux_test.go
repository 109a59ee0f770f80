package pod

import "testing"

// TestOfKata: what is mounted from a guest's share is Kata's, and a folder of that name is not.
func TestOfKata(t *testing.T) {
	for line, want := range map[string]bool{
		"1 0 0:40 /x/rootfs / rw - virtiofs kataShared rw\n":                                                 true,
		"1 0 0:20 /kata-containers/sandbox/shm /dev/shm rw - tmpfs tmpfs rw\n":                               true,
		"1 0 8:1 /var/lib/kubelet/pods/u/volumes/e/tree-0 /home/me/kata-containers rw - ext4 /dev/sda1 rw\n": false,
		"1 0 8:1 /v /home/me/a\\040kataShared\\040b rw - ext4 /dev/sda1 rw\n":                                false,
		"": false, "x\n": false,
	} {
		if got := ofKata(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
