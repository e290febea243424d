package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError says what is wrong with a flag, what was perhaps meant, and where the flags are listed.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	var unknown *pflag.NotExistError
	hint := ""
	if errors.As(err, &unknown) {
		if flag := nearestFlag(cmd.Flags(), unknown.GetSpecifiedName()); flag != "" {
			hint = "did you mean --" + flag + "? "
		}
	}
	return fmt.Errorf("%w; %ssee %s --help", plainFlagError(err), hint, cmd.CommandPath())
}

// nearestFlag is the flag whose name is the most like name, or begins with it; "" where none is.
func nearestFlag(fs *pflag.FlagSet, name string) string {
	nearest, least := "", 1+len(name)/3 // letters that differ
	fs.VisitAll(func(flag *pflag.Flag) {
		d := editDistance(flag.Name, name)
		if strings.HasPrefix(flag.Name, name) {
			d = min(d, 1+len(name)/3)
		}
		if d <= least && name != "" && !flag.Hidden && (nearest == "" || d < least) {
			nearest, least = flag.Name, d
		}
	})
	return nearest
}

// editDistance is the least number of letters to insert, delete or replace that makes b of a.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// cobrasCount are cobra's errors of arguments, which count them and don't say what they are.
var cobrasCount = regexp.MustCompile(`arg\(s\)|^unknown command `)

// tellArguments has all commands below cmd say what arguments they want.
func tellArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		tellArguments(sub)
	}
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if err == nil || !cobrasCount.MatchString(err.Error()) {
			return err
		}
		got := "nothing"
		if len(args) > 0 {
			got = strings.Trim(fmt.Sprintf("%q", args), "[]")
		}
		_, want, takes := strings.Cut(cmd.Use, " ")
		if !takes {
			want = "no argument"
		}
		return fmt.Errorf("want %s, got %s\nUsage: %s; see %s --help", want, got, cmd.UseLine(), cmd.CommandPath())
	}
}

// refuseUnknown has commands below cmd that are only groups of others refuse a word that is none of these.
func refuseUnknown(cmd *cobra.Command) {
	for _, group := range cmd.Commands() {
		refuseUnknown(group)
		if group.Runnable() || !group.HasSubCommands() {
			continue
		}
		group.SuggestionsMinimumDistance = 2
		group.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		group.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			hint := ""
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				hint = "did you mean " + strings.Join(near, " or ") + "? "
			}
			return fmt.Errorf("unknown command %q; %ssee %s --help", args[0], hint, cmd.CommandPath())
		}
		group.DisableFlagsInUseLine = true
	}
}

// plainFlagError says what a flag wants, where the error is that of the package which parses its value.
func plainFlagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag := invalid.GetFlag()
	want, ok := map[string]string{
		"int": "a whole number", "int32": "a whole number", "int64": "a whole number",
		"uint": "a whole number of at least 0", "uint64": "a whole number of at least 0", "float64": "a number",
		"bool": "true or false", "duration": "a duration, e.g. 30s, 5m or 1h30m",
	}[flag.Value.Type()]
	if !ok {
		return err
	}
	if errors.Is(err, strconv.ErrRange) {
		want += " that is not as large"
	}
	return fmt.Errorf("--%s %q: want %s", flag.Name, invalid.GetValue(), want)
}
