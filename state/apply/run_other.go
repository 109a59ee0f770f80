//go:build !linux

package apply

import "errors"

var errSystem = errors.New("changes can be applied on Linux alone")

// Start makes the steps in the project.
func Start(string, string, string, []Step) (*Journal, error) { return nil, errSystem }

// Undo takes a finished journal back.
func (j *Journal) Undo(string) (*Journal, error) { return nil, errSystem }

// Recover finishes or rolls back the journals that a crash left.
func Recover(string, string) ([]string, []Step, error) { return nil, nil, nil }

func selfOf(string) (self, error) { return self{}, errSystem }

func sameMount(string, string) (bool, error) { return false, errSystem }
