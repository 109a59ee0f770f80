//go:build !linux

package localuser

import (
	"context"
	"io"
)

// HelperMain refuses: cloisters need Linux.
func HelperMain(context.Context, []string, io.Writer) int { return 2 }

// Main refuses: cloisters need Linux.
func Main(context.Context, []string, string) int { return 2 }
