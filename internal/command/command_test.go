package command

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

type config struct{ name string }

func (c *config) AddFlags(fs *pflag.FlagSet) { fs.StringVar(&c.name, "some-name", c.name, "A name.") }

func TestExecute(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		run    error
		ended  bool
		code   int
		stderr string
	}{
		"runs":            {args: []string{"--some-name=x"}},
		"other spelling":  {args: []string{"--some_name=x"}},
		"logs as JSON":    {args: []string{"--some-name=x", "--logging-format=json"}},
		"logs as nothing": {args: []string{"--some-name=x", "--logging-format=xml"}, code: 1, stderr: "xml"},
		"fails": {args: []string{"--some-name=x"}, run: errors.New("broken"), code: 1,
			stderr: "player: broken"},
		"unknown flag":    {args: []string{"--other"}, code: 1, stderr: "--other"},
		"stray word":      {args: []string{"word"}, code: 1, stderr: `"word"`},
		"ended by signal": {args: []string{"--some-name=x"}, run: context.Canceled, ended: true},
		"gave up itself":  {args: []string{"--some-name=x"}, run: context.Canceled, code: 1, stderr: "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := logsapi.ResetForTest(nil); err != nil { // a process sets its logging up once
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.ended {
				cancel()
			}
			c := &config{}
			var stderr strings.Builder
			code := Execute(ctx, Program{Name: "player", Short: "Plays", Config: c, Run: func(context.Context) error {
				if c.name != "x" {
					t.Errorf("name %q", c.name)
				}
				return test.run
			}}, test.args, &stderr)
			if code != test.code || !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("code %d, %q", code, stderr.String())
			}
		})
	}
}
