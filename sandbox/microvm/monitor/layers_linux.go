package monitor

// layer names one wall of virtiofsd's, for builds that test what holds when it is missing.
type layer string

const (
	layerModes  layer = "modes"  // the filter by which it makes no set-id file
	layerServer layer = "server" // Landlock: what it may write
)
