//go:build !linux

package layers

func openBeneath(int, string) (int, error) { return -1, errOneByOne }
