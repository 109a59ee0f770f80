package store

// Verify is verify for the kill storm.
func (w *Workspace) Verify(c Checkpoint) error { return w.verify(c) }
