package cli

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// pagesOfPipelines are documents whose blocks of YAML are pipelines or parts of one.
var pagesOfPipelines = []string{"../../../docs/ci-github.md", "../../../docs/ci-gitlab.md"}

var (
	yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	action    = regexp.MustCompile(`^[a-z-]+/[a-z-]+@v[1-9][0-9]*$`)
	// command is a quintet command within a line of shell, up to what ends it there.
	command = regexp.MustCompile(`(?:^|[\s(])quintet ([^&|;)]*)`)
)

// TestPipelinesOfPages: the YAML of the pages about pipelines parses, its steps are actions of a version or commands,
// and each quintet command exists and takes its flags.
func TestPipelinesOfPages(t *testing.T) {
	for _, page := range pagesOfPipelines {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		commands := 0
		for _, block := range yamlBlock.FindAllStringSubmatch(string(content), -1) {
			var parsed any
			if err := yaml.UnmarshalStrict([]byte(block[1]), &parsed); err != nil {
				t.Errorf("%s: %v:\n%s", page, err, block[1])
				continue
			}
			eachString(parsed, "", func(key, value string) {
				switch key {
				case "uses":
					if !action.MatchString(value) {
						t.Errorf("%s: action %q", page, value)
					}
				case "run", "script", "before_script", "after_script":
					for _, found := range command.FindAllStringSubmatch(value, -1) {
						commands++
						checkCommand(t, page, found[1])
					}
				}
			})
		}
		if commands < 3 {
			t.Errorf("%s: %d quintet commands found", page, commands)
		}
	}
}

// eachString calls f with the strings below value, and with the key that each, or the list that it is in, stands under.
func eachString(value any, key string, f func(key, value string)) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			eachString(inner, key, f)
		}
	case []any:
		for _, inner := range value {
			eachString(inner, key, f)
		}
	case string:
		f(key, value)
	}
}

// checkCommand parses a command line, and runs nothing.
func checkCommand(t *testing.T, page, line string) {
	t.Helper()
	if err := parseCommand(strings.Fields(line)); err != nil {
		t.Errorf("%s: quintet %s: %v", page, line, err)
	}
}

func parseCommand(args []string) error {
	a := &app{out: io.Discard, err: io.Discard, in: strings.NewReader("")}
	root := a.root()
	var parse func(*cobra.Command)
	parse = func(cmd *cobra.Command) {
		cmd.Run, cmd.PreRunE, cmd.PersistentPreRunE = nil, nil, nil
		cmd.RunE = func(*cobra.Command, []string) error { return nil }
		for _, sub := range cmd.Commands() {
			parse(sub)
		}
	}
	parse(root)
	root.SetArgs(slices.Clone(args))
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root.Execute()
}

func TestParseCommandRefuses(t *testing.T) {
	for _, line := range []string{"upp", "up --no-such-flag", "export lgos logs", "up extra"} {
		if err := parseCommand(strings.Fields(line)); err == nil {
			t.Errorf("quintet %s is taken", line)
		}
	}
}
