package docker

// Short is for tests what short is.
func Short(id string) string { return short(id) }
