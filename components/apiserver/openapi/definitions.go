package openapi

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
)

//go:embed generated/definitions/*.json.gz
var files embed.FS

// definition is the schema of one type, in both versions of OpenAPI.
type definition struct {
	V2           json.RawMessage `json:"v2"`
	V3           json.RawMessage `json:"v3"`
	Dependencies []string        `json:"deps"`
}

// fingerprint tells two builds with different schemas apart.
var fingerprint = sync.OnceValue(func() string {
	sum := sha256.New()
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := files.ReadFile(path)
		sum.Write(content)
		return err
	})
	if err != nil {
		panic("openapi: " + err.Error()) // the files are part of the program
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
})

// closure loads the named definitions and all that they refer to. A name that is unknown is an error: it says that
// `go generate` was not run for its package.
func closure(names []string) (map[string]definition, error) {
	packages := map[string]map[string]definition{}
	found := map[string]definition{}
	for pending := slices.Clone(names); len(pending) > 0; {
		name := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if _, ok := found[name]; ok {
			continue
		}
		pkg := name[:max(0, strings.LastIndexByte(name, '.'))]
		if packages[pkg] == nil {
			loaded, err := load(pkg)
			if err != nil {
				return nil, err
			}
			packages[pkg] = loaded
		}
		d, ok := packages[pkg][name]
		if !ok {
			return nil, fmt.Errorf("openapi: there is no schema for %s", name)
		}
		found[name] = d
		pending = append(pending, d.Dependencies...)
	}
	return found, nil
}

func load(pkg string) (map[string]definition, error) {
	packed, err := files.ReadFile("generated/definitions/" + pkg + ".json.gz")
	if err != nil {
		return nil, fmt.Errorf("openapi: there are no schemas for package %s", pkg)
	}
	text, err := unzip(packed)
	if err != nil {
		return nil, fmt.Errorf("openapi: schemas of %s: %w", pkg, err)
	}
	var out map[string]definition
	return out, json.Unmarshal(text, &out)
}

func zip(text []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(text) // into memory
	_ = z.Close()
	return out.Bytes()
}

func unzip(packed []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

func sortedNames(m map[string]definition) []string { return slices.Sorted(maps.Keys(m)) }
