package spec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/kubelet/volumes"
)

// maxEnvFile is how much of an env file is read, in bytes.
const maxEnvFile = 1 << 20

// fileKey reads a variable from an env file in one of the pod's volumes, whose paths are given by name (KEP-3721). skip
// tells that it is optional and missing. As with upstream's kubelet a variable without a value is missing.
func fileKey(paths map[string]volumes.Mounted, ref *v1.FileKeySelector) (value string, skip bool, err error) {
	volume, ok := paths[ref.VolumeName]
	if !ok {
		return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName)
	}
	text, err := readBelow(volume.Path, ref.Path)
	if errors.Is(err, fs.ErrNotExist) && optional(ref.Optional) {
		return "", true, nil
	}
	if err == nil {
		value, err = lookUpEnvFile(text, ref.Key)
	}
	switch {
	case err != nil:
		return "", false, fmt.Errorf("couldn't parse env file %q of volume %q: %w", ref.Path, ref.VolumeName, err)
	case value == "" && optional(ref.Optional):
		return "", true, nil
	case value == "":
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	}
	return value, false, nil
}

// readBelow reads a file of a volume; links do not lead out of it.
func readBelow(volume, path string) (string, error) {
	root, err := os.OpenRoot(volume)
	if err != nil {
		return "", err
	}
	defer root.Close()
	file, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // to open a pipe would wait for a writer
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is no regular file")
	}
	data, err := io.ReadAll(io.LimitReader(file, maxEnvFile+1))
	if err == nil && len(data) > maxEnvFile {
		err = fmt.Errorf("it has more than %d bytes", maxEnvFile)
	}
	return string(data), err
}

// lookUpEnvFile finds a variable in a text of lines such as NAME='value'. What stands between the quotes, line ends
// included, is the value as it is; after them only a comment may follow. Empty lines and those that begin with # are
// passed over. The lines up to that of the variable have to be well formed.
func lookUpEnvFile(text, key string) (string, error) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimLeft(trimReturn(lines[i]), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		bad := func(problem string) error {
			return fmt.Errorf("invalid environment variable format at line %d: %s", i+1, problem)
		}
		name, rest, found := strings.Cut(line, "=")
		trimmed := strings.TrimRight(name, " \t")
		switch {
		case !found:
			return "", bad("missing '='")
		case trimmed == "":
			return "", bad("empty variable name")
		case trimmed != name:
			return "", bad("whitespace before '=' is not allowed")
		}
		value, more, problem := quoted(rest, lines[i+1:])
		if problem != "" {
			return "", bad(problem)
		}
		if name == key {
			return value, nil
		}
		i += more
	}
	return "", nil
}

// quoted reads a value that begins after the '=' and may go on in the lines that follow; more is how many of them it
// takes. A space after the '=' ends the value before it begins, as in a shell.
func quoted(rest string, following []string) (value string, more int, problem string) {
	if strings.HasPrefix(rest, " ") || strings.HasPrefix(rest, "\t") {
		return "", 0, ""
	}
	rest, opened := strings.CutPrefix(rest, "'")
	if !opened {
		return "", 0, "value must be enclosed in single quotes"
	}
	for {
		inside, after, closed := strings.Cut(rest, "'")
		value += inside
		if closed {
			if after = strings.TrimLeft(after, " \t"); after != "" && after[0] != '#' {
				return "", 0, "unexpected content after closing quote"
			}
			return value, more, ""
		}
		if more == len(following) {
			return "", 0, "unclosed single quote"
		}
		value += "\n"
		rest = trimReturn(following[more])
		more++
	}
}

func trimReturn(line string) string { return strings.TrimSuffix(line, "\r") }
