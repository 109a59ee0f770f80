package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cloister/bench/dressed"
)

// contained is ours in containers of an engine.
const contained = "cloister in a container"

// containerLimits are what docker run is given so that it does as much as we ask
// of the engine.
var containerLimits = []string{
	"run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "4096",
	"--ipc", "private", "--cgroupns", "private", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,mode=1777", "--tmpfs", "/var/tmp:rw,exec,nosuid,nodev,mode=1777", "--log-driver", "none",
}

// measureContainers compares a start in containers with docker run of the same
// image and limits, a start on an image with one without, and the tunnel out of a
// container with the one out of the native enclosure.
func measureContainers(ctx context.Context, w *world) error {
	if _, ok := w.peers["docker"]; !ok || w.short {
		return nil // its absence is told among the peers
	}
	const image = "cloister-bench:true"
	words, err := w.docker(ctx, image)
	if err != nil {
		w.absent("docker", err)
		return nil
	}
	defer func() {
		_ = w.in(context.WithoutCancel(ctx), words[0], append(slices.Clone(words[1:]), "rmi", image)...).Run()
	}()
	if at := slices.Index(words, "--host"); at >= 0 {
		w.env = append(w.env, "DOCKER_HOST="+words[at+1])
	}
	archive := filepath.Join(w.dir, "image.tar")
	if err := w.saved(ctx, words, image, archive); err != nil {
		return err
	}
	if _, err := w.guardian(ctx, 9); err != nil {
		return err
	}
	run := []string{w.cloister, "run"}
	user := []string{"--user", fmt.Sprintf("%d:%d", max(os.Getuid(), 1), max(os.Getgid(), 1)), image, "true"}
	err = w.race(ctx, "start in a container", w.rounds(40), []contender{
		{contained, append(slices.Clone(run), "--isolation", "docker", "--image", image, "--", "true"), 1},
		{"docker run --rm", slices.Concat(words, containerLimits, user), 1},
	})
	if err != nil {
		return err
	}
	err = w.race(ctx, "start on an image", w.rounds(120), []contender{
		{ours, append(slices.Clone(run), "--image", archive, "--", "true"), 1},
		{"without an image", append(slices.Clone(run), "--", "true"), 1},
	})
	if err != nil {
		return err
	}
	return errors.Join(w.dressed(ctx, words, image, archive), w.containedTunnel(ctx, image))
}

// saved writes an image of the engine into a file.
func (w *world) saved(ctx context.Context, words []string, image, file string) error {
	_, err := w.said(ctx, words[0], append(slices.Clone(words[1:]), "save", "-o", file, image)...)
	return err
}

func (w *world) containedTunnel(ctx context.Context, image string) error {
	l, port, err := sink()
	if err != nil {
		return err
	}
	defer l.Close()
	guardian, err := w.guardian(ctx, port)
	if err != nil {
		return err
	}
	client, err := w.client()
	if err != nil {
		return err
	}
	to := fmt.Sprintf("sink.bench.example:%d", port)
	var list []*way
	defer func() {
		for _, y := range list {
			_ = y.close()
		}
	}()
	for name, flags := range map[string]string{"cloister, native": "", contained: "--isolation docker --image " + image} {
		y, err := w.open(ctx, name, slices.Concat([]string{w.cloister, "run"}, strings.Fields(flags), []string{"--", client, insideWord}), to, "", worked(guardian))
		if err != nil {
			return err
		}
		list = append(list, y)
		if _, err := y.do(order{Do: "connect", Times: 1}); err != nil {
			return err
		}
	}
	for n := range w.rounds(9) {
		for i := range list {
			y := list[(i+n)%len(list)]
			for _, do := range []string{"upload", "download"} {
				seconds, err := y.do(order{Do: do, Bytes: 512 << 20})
				if err != nil {
					return err
				}
				w.raw.add(do+" from a container", y.name, "MB/s", float64(512<<20)/1e6/seconds)
			}
		}
	}
	return nil
}

// dressed compares devcontainers with what starts their image without one.
func (w *world) dressed(ctx context.Context, words []string, image, archive string) error {
	return dressed.Measure(ctx, dressed.Options{
		Cloister: w.cloister, Dir: w.dir, Docker: words, Limits: containerLimits, Image: image, Archive: archive, In: w.in,
		Race: func(subject string, all map[string][]string) error {
			var list []contender
			for name, words := range all {
				list = append(list, contender{name, words, 1})
			}
			return w.race(ctx, subject, w.rounds(25), list)
		},
	})
}
