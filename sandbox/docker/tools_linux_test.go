package docker_test

import (
	"errors"
	"os"
	"testing"

	"cloister/internal/needs"
	"cloister/sandbox"
	"cloister/sandbox/docker"
	"cloister/sandbox/image"
	"cloister/sandbox/sandboxtest"
	"cloister/sandbox/sandboxtest/tools"
)

// TestEngineTools holds docs/tools.md to what the tools of the image do, of the store that CLOISTER_TEST_IMAGES names.
func TestEngineTools(t *testing.T) {
	images := os.Getenv("CLOISTER_TEST_IMAGES")
	if images == "" {
		needs.Missing(t, "docker", errors.New("CLOISTER_TEST_IMAGES names no store of images: script/test docker makes one"))
	}
	store := image.Open(images)
	i, err := store.Find("cloister-base")
	if err != nil {
		t.Fatal(err)
	}
	o := options(t)
	root := sandbox.Root{Dir: sandbox.HostPath(store.Root(i)), ID: i.ID}
	tools.Hold(t, tools.Level{Name: "docker", Document: "../../docs/tools.md", Root: store.Root(i),
		Run: sandboxtest.Script(func() sandbox.Driver { return onImage{docker.New(o), root} })})
}
