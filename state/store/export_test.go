package store

// Verify is verify for the kill storm.
func (w *Workspace) Verify(c Checkpoint) error { return w.verify(c) }

// Mount is mount for tests of what a store refuses.
func (w *Workspace) Mount() Mount {
	m, err := w.mount()
	if err != nil {
		panic(err)
	}
	return m
}
