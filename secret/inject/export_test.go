package inject

// SetMost gives the session another bound of what it unpacks.
func (s *Session) SetMost(most int64) { s.most = most }
