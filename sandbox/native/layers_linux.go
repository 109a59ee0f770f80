package native

// layer names one wall of the enclosure, for builds that test what holds when
// it is missing.
type layer string

const (
	layerView         layer = "view"
	layerNet          layer = "net"
	layerLandlock     layer = "landlock"
	layerSeccomp      layer = "seccomp"
	layerCapabilities layer = "capabilities"
	layerProtect      layer = "protect"
)
