package agent

// An Answer is what an agent asks a new person once, answered where it keeps the
// answer: in a JSON document of the private home, below keys.
type Answer struct {
	File  string // relative to the home
	Keys  []string
	Value any
	// Over replaces what is there; without it an answer of the person's stays. Add
	// puts the value into a list.
	Over, Add bool
}

// Home is what an agent finds in a cloister's home before its first start, so that it
// begins with the person's work and not with questions of its own.
type Home struct {
	Answers []Answer
	// Files are linked to where they are missing. They are each session's own: in them
	// are its placeholders.
	Files []File
	// System are files outside the home, as Instructions are.
	System []File
}

// HomeOf is what the agent of that name finds, in the projects at these folders. What it
// knows of credentials are the variables that the inside has.
func HomeOf(name string, folders []string, variable func(string) string) Home {
	if find := Find(name).home; find != nil {
		return find(folders, variable)
	}
	return Home{}
}
