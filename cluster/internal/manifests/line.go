package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// malformed is the error of a document that can't be decoded. The decoder counts lines from the document's begin, so
// that YAML which is wrong is parsed again as a whole.
func malformed(source string, content []byte, document int, cause error) error {
	again := yamlv3.NewDecoder(bytes.NewReader(content))
	for {
		err := again.Decode(&yamlv3.Node{})
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s: document %d: %w", at(source, lineOf(content, document)), document, cause)
		}
		if err == nil {
			continue
		}
		line := lineOf(content, document) // the first line of all is not told
		message := strings.TrimPrefix(err.Error(), "yaml: ")
		if n, _ := fmt.Sscanf(message, "line %d:", &line); n == 1 {
			_, message, _ = strings.Cut(message, ": ")
		}
		return fmt.Errorf("%s: document %d: not YAML: %s", at(source, line), document, message)
	}
}

func at(source string, line int) string {
	if line == 0 {
		return source
	}
	return fmt.Sprintf("%s:%d", source, line)
}

// lineOf is the line of the first line of a document that is neither empty nor a comment, by the separators that
// apimachinery's YAMLReader goes by; 0 if there are not so many of those. Documents are counted from 1, those without
// any line not at all.
func lineOf(content []byte, document int) int {
	count, first, lines := 0, 0, 0
	for i, line := range strings.Split(string(content), "\n") {
		rest, separates := strings.CutPrefix(line, "---")
		rest = strings.TrimSpace(rest)
		if separates && (rest == "" || rest[0] == '#') {
			if lines > 0 {
				count++
			}
			if count == document {
				return first
			}
			first, lines = 0, 0
			continue
		}
		lines++
		text := strings.TrimSpace(line)
		if first == 0 && text != "" && text[0] != '#' {
			first = i + 1
		}
	}
	if count+1 == document {
		return first
	}
	return 0
}
