package demand

import (
	"slices"
	"strings"

	"cloister/devcontainer/jsonc"
)

// argument says what a flag of docker run means for a cloister.
type argument struct {
	valued  bool
	outcome Outcome
	reason  string
	hint    string
}

// arguments are the flags that are known; any other is refused.
func arguments() map[string]argument {
	const (
		own      = "the cloister's own"
		network  = "the network is the guardian's"
		power    = "it would be a power over this machine"
		none     = "it says nothing that a cloister has"
		expose   = "a folder of this machine is shown by a person alone"
		isolated = "the namespaces of a cloister are its own"
	)
	list := map[string]argument{
		"--init": {false, Honoured, "every cloister has a first process that reaps", ""},
		"--env":  {true, Honoured, "a variable inside", ""}, "--memory": {true, Honoured, "a limit", ""},
		"--cpus": {true, Honoured, "a limit", ""}, "--pids-limit": {true, Honoured, "a limit", ""},
		"--cap-drop": {true, Honoured, "nothing inside has a capability of the kernel's", ""}, "--read-only": {false,
			Honoured, "the system inside is read-only", ""},
		"--privileged":   {false, Refused, "it would have every power over this machine", ""},
		"--cap-add":      {true, Refused, "nothing inside has a capability of the kernel's", ""},
		"--security-opt": {true, Refused, ownFilter, ""},
		"--volume":       {true, Refused, expose, "show it: --expose PATH:ro"}, "--mount": {true, Refused, expose,
			"show it: --expose PATH:ro"},
		"--volumes-from": {true, Refused, expose, ""}, "--env-file": {true, Refused,
			"a file of this machine is not read for it", "set containerEnv"},
		"--publish":     {true, Refused, "a port of this machine is opened by forwardPorts or a person", "open it: -p PORT"},
		"--publish-all": {false, Refused, "a port of this machine is opened by forwardPorts or a person", ""},
		"--entrypoint":  {true, Changed, "the command is the person's", ""}, "--platform": {true, Changed,
			"the system is this machine's", ""},
	}
	add := func(o Outcome, reason string, valued bool, names ...string) {
		for _, n := range names {
			list[n] = argument{valued, o, reason, ""}
		}
	}
	add(Changed, own, true, "--name", "--hostname", "--label", "--label-file", "--user", "--workdir", "--restart",
		"--log-driver",
		"--log-opt", "--stop-signal", "--stop-timeout", "--cidfile", "--pull", "--health-cmd", "--health-interval",
		"--health-retries",
		"--health-timeout", "--detach-keys", "--memory-swap", "--memory-reservation", "--memory-swappiness", "--cpu-shares",
		"--shm-size",
		"--tmpfs", "--expose", "--oom-score-adj", "--blkio-weight")
	add(Changed, none, false, "--rm", "--interactive", "--tty", "--detach", "--no-healthcheck", "--sig-proxy", "--quiet")
	add(Refused, network, true, "--network", "--net", "--network-alias", "--net-alias", "--dns", "--dns-search",
		"--dns-option", "--add-host",
		"--link", "--ip", "--ip6", "--mac-address", "--domainname")
	add(Refused, isolated, true, "--pid", "--ipc", "--uts", "--userns", "--cgroupns", "--cgroup-parent", "--runtime",
		"--isolation")
	add(Refused, power, true, "--device", "--device-cgroup-rule", "--device-read-bps", "--device-write-bps", "--gpus",
		"--sysctl", "--ulimit",
		"--group-add", "--storage-opt", "--volume-driver", "--annotation", "--cpuset-cpus", "--cpuset-mems",
		"--cpu-rt-runtime")
	add(Refused, power, false, "--oom-kill-disable", "--use-api-socket")
	return list
}

// short are the one-letter flags.
var short = map[byte]string{
	'e': "--env", 'm': "--memory", 'v': "--volume", 'p': "--publish", 'P': "--publish-all", 'h': "--hostname",
	'l': "--label",
	'u': "--user", 'w': "--workdir", 'i': "--interactive", 't': "--tty", 'd': "--detach", 'a': "--detach-keys",
	'c': "--cpu-shares", 'q': "--quiet",
}

// runArgs keeps those that are honoured, spelled --flag=value.
func runArgs(j *judge, m jsonc.Member) any {
	known := arguments()
	kept := []any{}
	for n := 0; n < len(m.Value.Items); n++ {
		v := m.Value.Items[n]
		key := indexed(m.Name, n)
		if v.Kind != jsonc.String || !strings.HasPrefix(v.Text, "-") {
			j.item(key, v, Refused, "no flag stands before it", "")
			continue
		}
		name, value, valued := spelled(v.Text)
		a, ok := known[name]
		if !ok {
			// Its value would be taken for the image.
			if !valued && n+1 < len(m.Value.Items) && !strings.HasPrefix(m.Value.Items[n+1].Text, "-") {
				n++
				v.Text += " " + m.Value.Items[n].Text
			}
			j.item(key, v, Refused, "it is on no list of what a cloister has", "")
			continue
		}
		if a.valued && !valued {
			if n+1 == len(m.Value.Items) {
				j.item(key, v, Refused, "its value is missing", "")
				continue
			}
			n++
			value = m.Value.Items[n].Text
			v.Text += " " + value
		}
		o, reason, hint := j.argument(name, value, a)
		j.item(key, v, o, reason, hint)
		if o == Honoured {
			kept = append(kept, strings.TrimSuffix(name+"="+value, "="))
		}
	}
	return kept
}

// argument judges the values that make a difference.
func (j *judge) argument(name, value string, a argument) (Outcome, string, string) {
	switch {
	case a.valued && strings.HasPrefix(value, "-") && name != "--pids-limit":
		return Refused, "its value reads like another flag", "write " + name + "=VALUE"
	case !a.valued && value == "false":
		return Honoured, "as without it", ""
	case (name == "--network" || name == "--net") && value == "none":
		return Honoured, "no network at all, not even the guardian's", ""
	case name == "--security-opt" && strings.HasPrefix(value, "no-new-privileges"):
		return Honoured, "every cloister has it", ""
	case name == "--env":
		variable, _, set := strings.Cut(value, "=")
		if !set {
			return Refused, "a variable of this machine reaches the inside only by a person's word", "give it: -e " + variable
		}
		if why := j.reserved(variable); why != "" {
			return Refused, why, "set it yourself: -e " + variable + "=VALUE"
		}
	}
	return a.outcome, a.reason, a.hint
}

// spelled splits a flag into its long name and its value.
func spelled(text string) (name, value string, valued bool) {
	if strings.HasPrefix(text, "--") {
		name, value, valued = strings.Cut(text, "=")
		return name, value, valued
	}
	if len(text) < 2 || short[text[1]] == "" {
		return text, "", false
	}
	name = short[text[1]]
	flags := []string{"--publish-all", "--interactive", "--tty", "--detach", "--quiet"}
	if rest := text[2:]; rest != "" && !slices.Contains(flags, name) {
		return name, strings.TrimPrefix(rest, "="), true
	} else if rest != "" && strings.Trim(rest, "itd") != "" {
		return text, "", false // a bundle with a flag that is no switch
	}
	return name, "", false
}
