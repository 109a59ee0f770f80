package resolve

import "cloister/host/taint"

// Now makes a resolver by what the register says at that moment, for processes that live longer
// than one start.
type Now func() (*Resolver, error)

// In is for the instance with that state folder, run by a user.
func In(state string, uid int) Now {
	return func() (*Resolver, error) {
		places, err := taint.Read(state)
		if err != nil {
			return nil, err
		}
		return New(places, uid), nil
	}
}
