package plan_test

import (
	"fmt"
	"strings"

	"cloister/sandbox"
	"cloister/sandbox/plan"
)

// line is a step as a reviewer reads it.
func line(one plan.Step) string {
	switch s := one.(type) {
	case plan.Root:
		if s.Image != "" {
			return "root of memory over the image " + string(s.Image)
		}
		return "root of memory"
	case plan.Folder:
		text := fmt.Sprintf("folder %s %04o", s.Path, s.Mode)
		if s.Instead {
			text += " in the link's place"
		}
		return text
	case plan.File:
		text := fmt.Sprintf("file %s %04o", s.Path, s.Mode)
		if s.From != "" {
			text += " copied from " + string(s.From)
		}
		if own := len(s.Head) + len(s.Data); own > 0 {
			text += fmt.Sprintf(", %d bytes %.64q", own, string(s.Head)+string(s.Data))
		}
		return text
	case plan.Link:
		return fmt.Sprintf("link %s to %s", s.Path, s.Target)
	case plan.Bind:
		text := "bind " + string(s.Target)
		if string(s.Source) != string(s.Target) {
			text += " of " + string(s.Source)
		}
		if s.Access == sandbox.ReadWrite {
			text += " read-write"
		} else {
			text += " read-only"
		}
		if s.File {
			text += " file"
		}
		if s.System {
			text += " system"
		}
		switch {
		case s.Overlay && s.Upper != nil:
			text += fmt.Sprintf(" overlay kept in %s: %s over %s", s.Upper.Store, s.Upper.Dir,
				strings.Join(append(s.Upper.Lower, "the source"), ", "))
		case s.Overlay:
			text += " overlay in memory"
		}
		return text
	case plan.Device:
		return "device /dev/" + s.Name
	case plan.Proc:
		words := []string{"processes at /proc"}
		for _, b := range s.Bounds {
			words = append(words, fmt.Sprintf("%s=%d", b.Name, b.Value))
		}
		return strings.Join(words, " ")
	case plan.Terminals:
		return fmt.Sprintf("terminals at /dev/pts, %d at most", s.Most)
	case plan.Memory:
		return "memory " + s.Path
	case plan.Same:
		return "memory " + s.Path + ", the same as " + s.As
	case plan.Null:
		return "hide " + s.Path + " behind the null device"
	case plan.Cover:
		text := string(s.Target)
		switch {
		case s.Protect.Instead != "":
			text = "hide " + text + " behind " + string(s.Protect.Instead)
		case s.Empty && s.Protect.File:
			text = "hide " + text + " behind an empty file"
		case s.Empty:
			text = "hide " + text + " behind an empty folder"
		case s.Pin:
			text = "pin " + text
		default:
			text = "protect " + text
		}
		if s.Fleeting {
			text += " if it is there"
		}
		return text
	case plan.Seal:
		return "seal the root"
	case plan.Limit:
		return fmt.Sprintf("limit %s %d %d", s.Name, s.Soft, s.Hard)
	case plan.Drop:
		return "drop every privilege"
	case plan.Keep:
		return "keep the box's own privileges, and no others"
	case plan.Landlock:
		words := append([]string{"landlock, write"}, s.Writable...)
		for _, p := range s.Permits.List {
			may := []string{"permit"}
			if p.Read && s.Permits.Opens {
				may = append(may, "read")
			}
			if p.Write && s.Permits.Opens {
				may = append(may, "write")
			}
			if p.Exec && s.Permits.Programs {
				may = append(may, "execute")
			}
			words = append(words, strings.Join(may, "-"), string(p.Path))
		}
		return strings.Join(words, " ")
	case plan.Watch:
		return "seccomp, report programs and files"
	case plan.Fileless:
		return "seccomp, no memory as files"
	case plan.Calls:
		return "seccomp, the table of calls"
	case plan.Absent:
		return "find nothing at " + s.Path
	case plan.Held:
		if s.Fleeting {
			return "find " + s.Path + " read-only if it is there"
		}
		return "find " + s.Path + " read-only"
	case plan.Overlaid:
		return "find an overlay at " + s.Path
	}
	return fmt.Sprintf("%T", one)
}
