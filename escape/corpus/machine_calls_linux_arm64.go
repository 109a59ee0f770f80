package corpus

// machineCalls are calls of this kind of machine alone.
func machineCalls() []call { return nil }
