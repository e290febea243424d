package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// SubPath resolves a subPath inside a volume and makes it, as a directory, if it is missing. Links that lead out
// of the volume are refused.
func SubPath(volume, sub string) (string, error) {
	if !filepath.IsLocal(sub) {
		return "", fmt.Errorf("subPath %q must be relative and stay inside its volume", sub)
	}
	root, err := filepath.EvalSymlinks(volume)
	if err != nil {
		return "", err
	}
	inside, err := os.OpenRoot(root) // whose operations do not follow links outward
	if err != nil {
		return "", err
	}
	defer inside.Close()
	if _, err := inside.Stat(sub); errors.Is(err, fs.ErrNotExist) {
		if err := inside.MkdirAll(sub, 0o750); err != nil {
			return "", fmt.Errorf("make subPath %q: %w", sub, err)
		}
	} else if err != nil {
		return "", fmt.Errorf("subPath %q: %w", sub, err)
	}
	resolved, err := filepath.EvalSymlinks(filepath.Join(root, sub))
	if err != nil {
		return "", err
	}
	if resolved != root && !strings.HasPrefix(resolved, root+"/") {
		return "", fmt.Errorf("subPath %q leads out of its volume", sub)
	}
	return resolved, nil
}
