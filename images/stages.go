package images

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
)

const (
	// baseName is the FROM of stages that are built on the node's base.
	baseName = "node-base"
	// archiveSuffix ends the name of a file that is the archive of another image.
	archiveSuffix = ".tar"
)

// stage is a stage of the Dockerfile: one image.
type stage struct {
	name, from string
	files      []string // that it copies
	text       string
}

// parseStages reads a Dockerfile whose stages have a name and copy single files.
func parseStages(dockerfile string) ([]stage, error) {
	var stages []stage
	lines := bufio.NewScanner(strings.NewReader(dockerfile))
	for lines.Scan() {
		line := lines.Text()
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if words[0] == "FROM" {
			if len(words) != 4 || words[2] != "AS" {
				return nil, fmt.Errorf("images/Dockerfile: %q: want FROM base AS name", line)
			}
			stages = append(stages, stage{name: words[3], from: words[1]})
		}
		if len(stages) == 0 {
			return nil, fmt.Errorf("images/Dockerfile: %q stands before the first stage", line)
		}
		current := &stages[len(stages)-1]
		if words[0] == "COPY" {
			if len(words) < 3 {
				return nil, fmt.Errorf("images/Dockerfile: %q: want COPY file... folder", line)
			}
			current.files = append(current.files, words[1:len(words)-1]...)
		}
		current.text += line + "\n"
	}
	return stages, lines.Err()
}

// programs are the files that Go builds.
func (s stage) programs() []string {
	return slices.DeleteFunc(slices.Clone(s.files), func(f string) bool { return strings.HasSuffix(f, archiveSuffix) })
}

// archives are the images whose archives are copied.
func (s stage) archives() []string {
	var names []string
	for _, file := range s.files {
		if name, ok := strings.CutSuffix(file, archiveSuffix); ok {
			names = append(names, name)
		}
	}
	return names
}

// on is the text of a stage whose base is an image.
func (s stage) on(base string) string { return strings.Replace(s.text, s.from, base, 1) }

// closure finds the named stages, or all, and those whose archives they copy.
func closure(stages []stage, names []string) ([]stage, error) {
	if len(names) == 0 {
		return stages, nil
	}
	wanted := map[string]bool{}
	var want func(name string) error
	want = func(name string) error {
		i := slices.IndexFunc(stages, func(s stage) bool { return s.name == name })
		if i < 0 {
			return fmt.Errorf("no image %q; there are %s", name, strings.Join(namesOf(stages), ", "))
		}
		wanted[name] = true
		for _, archive := range stages[i].archives() {
			if err := want(archive); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range names {
		if err := want(name); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(stages), func(s stage) bool { return !wanted[s.name] }), nil
}

func namesOf(stages []stage) []string {
	var names []string
	for _, s := range stages {
		names = append(names, s.name)
	}
	return names
}

// levels are the stages that need no other image, and then those that do.
func levels(stages []stage) [][]stage {
	var first, second []stage
	for _, s := range stages {
		if len(s.archives()) == 0 {
			first = append(first, s)
		} else {
			second = append(second, s)
		}
	}
	return [][]stage{first, second}
}
