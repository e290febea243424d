package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// stages reads the Dockerfile of the source.
func (s Source) stages() ([]stage, error) {
	content, err := s.read("images/Dockerfile")
	if err != nil {
		return nil, err
	}
	return parseStages(string(content))
}

// read reads a file of the main module.
func (s Source) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(s.dirs["."], filepath.FromSlash(name)))
}

// id names the source in labels and folders: the same for all states of a checkout.
func (s Source) id() string {
	sum := sha256.Sum256([]byte(s.String()))
	return hex.EncodeToString(sum[:])[:12]
}

// fingerprint changes with anything that programs are built from. The Go that built this program stands for the one
// that builds images.
func (s Source) fingerprint() (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), s)
	if s.Version != "" {
		return hex.EncodeToString(hash.Sum(nil)), nil
	}
	root := s.dirs["."]
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && !s.mayHaveSource(path, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".md") {
			return nil
		}
		fmt.Fprintln(hash, strings.TrimPrefix(path, root))
		return copyFile(hash, path)
	})
	return hex.EncodeToString(hash.Sum(nil)), err
}

// mayHaveSource tells whether a folder of a checkout may belong to programs: it is none that Go or this project passes
// over, and no further module.
func (s Source) mayHaveSource(dir, name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "bin" {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err != nil || slices.Contains(slices.Collect(maps.Values(s.dirs)), dir)
}

// build builds programs into a folder. Those that are fresh there are not linked again.
func (s Source) build(ctx context.Context, programs []string, server target, into string) error {
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	byModule := map[string][]string{}
	for _, program := range programs {
		place, err := s.placeOf(program)
		if err != nil {
			return err
		}
		byModule[place] = append(byModule[place], "./cmd/"+program)
	}
	stamps, err := s.stamps(ctx)
	if err != nil {
		return err
	}
	for place, packages := range byModule {
		flags := "-s -w"
		if place == "." {
			flags += stamps
		}
		args := append([]string{"build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-tags=grpcnotrace",
			"-ldflags", flags, "-o", into + string(filepath.Separator)}, packages...)
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = s.dirs[place]
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+server.os, "GOARCH="+server.arch, "GOFLAGS=", "GOWORK=off")
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Run(); err != nil {
			return goError(cmd.Dir, []string{"build", strings.Join(packages, " ")}, fmt.Errorf("%w\n%s", err, said.String()))
		}
	}
	return nil
}

// placeOf finds the module that has a program.
func (s Source) placeOf(program string) (string, error) {
	for place, dir := range s.dirs {
		if _, err := os.Stat(filepath.Join(dir, "cmd", program)); err == nil {
			return place, nil
		}
	}
	return "", fmt.Errorf("images/Dockerfile: %s has no program %s", s, program)
}

// stamps are linker flags: what the programs say of themselves.
func (s Source) stamps(ctx context.Context) (string, error) {
	content, err := s.read("go.mod")
	if err != nil {
		return "", err
	}
	file, err := modfile.ParseLax("go.mod", content, nil)
	if err != nil {
		return "", err
	}
	release := ""
	for _, r := range file.Require {
		if r.Mod.Path == "k8s.io/api" {
			release = "v1" + strings.TrimPrefix(r.Mod.Version, "v0")
		}
	}
	parts := strings.SplitN(strings.TrimPrefix(release, "v"), ".", 3)
	if len(parts) != 3 {
		return "", fmt.Errorf("go.mod of %s requires no release of k8s.io/api", s)
	}
	state := s.state(ctx)
	flags := " -X " + Module + "/internal/release.own=" + state.version
	for _, p := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, pair := range [][2]string{{"gitVersion", release}, {"gitMajor", parts[0]}, {"gitMinor", parts[1]},
			{"gitCommit", state.commit}, {"gitTreeState", state.tree}, {"buildDate", state.date}} {
			flags += " -X " + p + "." + pair[0] + "=" + pair[1]
		}
	}
	return flags, nil
}

// state is what Git knows of a source.
type state struct{ version, commit, tree, date string }

// state asks Git. A release, and a folder that is no repository, are known by their version alone.
func (s Source) state(ctx context.Context) state {
	unknown := state{version: s.Version, commit: "unknown", tree: "clean",
		date: time.Unix(0, 0).UTC().Format(time.RFC3339)}
	if s.Version != "" {
		return unknown
	}
	git := func(args ...string) string {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = s.dirs["."]
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	unknown.version = "devel"
	commit := git("rev-parse", "HEAD")
	if commit == "" {
		return unknown
	}
	known := state{version: git("describe", "--tags", "--always", "--dirty", "--match", "v*"), commit: commit,
		tree: "clean", date: git("log", "-1", "--format=%cI")}
	if git("status", "--porcelain") != "" {
		known.tree = "dirty"
	}
	return known
}

func fileSum(path string) (string, error) {
	hash := sha256.New()
	if err := copyFile(hash, path); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func copyFile(w io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}
