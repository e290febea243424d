package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

// Module is the path of the module that images are built from.
const Module = "quintet.dev/quintet"

// nested are the folders that are modules of their own. A checkout has them in their places; the zip of a module has
// no other module in it, so that of a release each is downloaded by itself, at the same version.
var nested = []string{"components/dns", "components/registry"}

// Source is the source of the programs.
type Source struct {
	// Version is the release; "" for a folder whose content may change.
	Version string
	// dirs are the folders of the modules, by their places in a checkout; "." is the main one.
	dirs map[string]string
}

// String names the source to people.
func (s Source) String() string {
	if s.Version != "" {
		return Module + "@" + s.Version
	}
	return s.dirs["."]
}

// FindSource finds the source of the running program: the folder of EnvSource; else where the compiler read this file,
// unless it was told to forget (-trimpath); else the version of this module in the program, from Go's module cache or
// proxy; else the module as `go list -m` resolves it in the working directory or next to the program.
func FindSource(ctx context.Context) (Source, error) {
	if dir := os.Getenv(EnvSource); dir != "" {
		s, err := folder(dir)
		if err != nil {
			return s, fmt.Errorf("%s=%s: %w", EnvSource, dir, err)
		}
		return s, nil
	}
	var reasons []error
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		s, err := located(ctx, filepath.Dir(filepath.Dir(file)))
		if err == nil {
			return s, nil
		}
		reasons = append(reasons, err)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		if version := builtFrom(info); version != "" {
			s, err := download(ctx, version)
			if err == nil {
				return s, nil
			}
			reasons = append(reasons, err)
		}
	}
	places := []string{"."}
	if program, err := os.Executable(); err == nil {
		places = append(places, filepath.Dir(program))
	}
	for _, dir := range places {
		s, err := listed(ctx, dir)
		if err == nil {
			return s, nil
		}
		reasons = append(reasons, err)
	}
	return Source{}, fmt.Errorf("find the source of %s to build images from (set %s to a checkout of it): %w", Module,
		EnvSource, errors.Join(reasons...))
}

// builtFrom is the version of the module that a program was built from; "" if it came from a folder.
func builtFrom(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path != Module {
			continue
		}
		if m.Replace != nil || !strings.HasPrefix(m.Version, "v") || strings.HasSuffix(m.Version, "+dirty") {
			return ""
		}
		return m.Version
	}
	return ""
}

// folder is the source in a checkout.
func folder(dir string) (Source, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Source{}, err
	}
	s := Source{dirs: map[string]string{}}
	for _, place := range append([]string{"."}, nested...) {
		s.dirs[place] = filepath.Join(dir, place)
		want := Module
		if place != "." {
			want += "/" + place
		}
		content, err := os.ReadFile(filepath.Join(s.dirs[place], "go.mod"))
		if err != nil {
			return Source{}, fmt.Errorf("no checkout of %s: %w", Module, err)
		}
		if got := modfile.ModulePath(content); got != want {
			return Source{}, fmt.Errorf("no checkout of %s: module %s in %s", want, got, s.dirs[place])
		}
	}
	return s, nil
}

// located is the source of a folder that is a checkout, or a version of the module in Go's module cache.
func located(ctx context.Context, dir string) (Source, error) {
	if _, version, ok := strings.Cut(filepath.Base(dir), "@"); ok {
		version, err := module.UnescapeVersion(version)
		if err != nil {
			return Source{}, err
		}
		return download(ctx, version)
	}
	return folder(dir)
}

// listed is the source as the Go command resolves the module in a working directory.
func listed(ctx context.Context, dir string) (Source, error) {
	found, err := goJSON[struct {
		Dir, Version string
		Replace      *struct{ Path, Version string }
	}](ctx, dir, "list", "-m", "-json", Module)
	if err != nil {
		return Source{}, err
	}
	if len(found) != 1 || found[0].Dir == "" {
		return Source{}, fmt.Errorf("go list -m %s in %s: its source is not downloaded", Module, dir)
	}
	replaced := found[0].Replace
	switch {
	case found[0].Version == "" || replaced != nil && replaced.Version == "":
		return folder(found[0].Dir)
	case replaced != nil:
		return Source{}, fmt.Errorf("%s is replaced by %s@%s, which has none of %s; replace it by a folder", Module,
			replaced.Path, replaced.Version, strings.Join(nested, ", "))
	}
	return download(ctx, found[0].Version)
}

// download is the source of a release, out of Go's module cache where it is there.
func download(ctx context.Context, version string) (Source, error) {
	beside := version
	if rev, err := module.PseudoVersionRev(version); err == nil {
		beside = rev // the nested modules have other pseudo-versions of the same commit
	}
	args := []string{"mod", "download", "-json", Module + "@" + version}
	for _, place := range nested {
		args = append(args, Module+"/"+place+"@"+beside)
	}
	empty, err := os.MkdirTemp("", "quintet-source-") // where no go.mod has a say
	if err != nil {
		return Source{}, err
	}
	defer os.RemoveAll(empty)
	found, err := goJSON[struct{ Path, Dir, Error string }](ctx, empty, args...)
	if err != nil {
		return Source{}, err
	}
	s := Source{Version: version, dirs: map[string]string{}}
	for _, m := range found {
		if m.Error != "" {
			return Source{}, fmt.Errorf("download %s@%s: %s", m.Path, version, m.Error)
		}
		place := strings.TrimPrefix(strings.TrimPrefix(m.Path, Module), "/")
		if place == "" {
			place = "."
		}
		s.dirs[place] = m.Dir
	}
	return s, nil
}

// goJSON runs the Go command in a folder and decodes the values that it prints.
func goJSON[T any](ctx context.Context, dir string, args ...string) ([]T, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	if len(out) == 0 && err != nil {
		return nil, goError(dir, args, err)
	}
	var values []T
	for decoder := json.NewDecoder(strings.NewReader(string(out))); decoder.More(); {
		var value T
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("go %s: %w", args[0], err)
		}
		values = append(values, value)
	}
	return values, nil
}

// goError says what the Go command said.
func goError(dir string, args []string, err error) error {
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("images are built by Go, which is not on the PATH; install it from https://go.dev/dl: %w", err)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return fmt.Errorf("go %s in %s: %w", strings.Join(args, " "), dir, err)
}
