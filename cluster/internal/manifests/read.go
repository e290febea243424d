// Package manifests reads objects of any kind from YAML, and applies them on the server's side in an order in which
// each finds what it needs: definitions of resources first, then namespaces, then the rest.
package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// extensions of the files in a directory that are read.
var extensions = []string{".yaml", ".yml", ".json"}

// Read reads a file, or those of a directory (not of directories below it), in the order of their names.
func Read(path string) ([]*unstructured.Unstructured, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = inside(path); err != nil {
			return nil, err
		}
	}
	var objects []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		more, err := Decode(file, content)
		if err != nil {
			return nil, err
		}
		objects = append(objects, more...)
	}
	return objects, nil
}

func inside(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains(extensions, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no file ends with one of %v", dir, extensions)
	}
	return files, nil
}

// Decode decodes documents of YAML or JSON; a List stands for its items. Errors name the source, the line and the
// document.
func Decode(source string, content []byte) ([]*unstructured.Unstructured, error) {
	reader := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var objects []*unstructured.Unstructured
	for i := 1; ; i++ {
		var object unstructured.Unstructured
		err := reader.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, malformed(source, content, i, err)
		}
		if len(object.Object) == 0 {
			continue // only comments
		}
		items, err := named(&object)
		if err != nil {
			return nil, fmt.Errorf("%s: document %d: %w", at(source, lineOf(content, i)), i, err)
		}
		objects = append(objects, items...)
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s: no object in it", source)
	}
	return objects, nil
}

// named are the objects of a document, which have what an object is applied by.
func named(object *unstructured.Unstructured) (items []*unstructured.Unstructured, err error) {
	items = []*unstructured.Unstructured{object}
	if object.IsList() {
		if items, err = itemsOf(object); err != nil {
			return nil, err
		}
	}
	for _, item := range items {
		if item.GetAPIVersion() == "" || item.GetKind() == "" || item.GetName() == "" {
			return nil, fmt.Errorf("an object needs apiVersion, kind and metadata.name; it has %q, %q and %q",
				item.GetAPIVersion(), item.GetKind(), item.GetName())
		}
	}
	return items, nil
}

func itemsOf(list *unstructured.Unstructured) (items []*unstructured.Unstructured, err error) {
	decoded, err := list.ToList()
	if err != nil {
		return nil, err
	}
	for i := range decoded.Items {
		items = append(items, &decoded.Items[i])
	}
	return items, nil
}
