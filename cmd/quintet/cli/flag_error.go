package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

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
