package cli

import "cloister/sandbox"

// Made is a driver as the contract has it, where one could be made: a nil pointer is none.
func Made[D sandbox.Driver](d D, err error) (sandbox.Driver, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}
