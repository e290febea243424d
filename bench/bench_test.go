package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRunGoesOn: what was measured is told, whatever else fails.
func TestRunGoesOn(t *testing.T) {
	broken := errors.New("no image")
	ctx, cancel := context.WithCancel(t.Context())
	one := func(context.Context, Options) ([]Measure, error) { return []Measure{{Name: "time"}}, nil }
	all := []section{
		{name: "first", run: one},
		{name: "second", run: func(context.Context, Options) ([]Measure, error) { return nil, broken }},
		{name: "third", run: one},
		{name: "fourth", run: func(context.Context, Options) ([]Measure, error) { cancel(); return nil, ctx.Err() }},
		{name: "fifth", run: one},
	}
	measures, err := run(ctx, Options{}, all)
	if !errors.Is(err, broken) || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if len(measures) != 2 || measures[0].Section != "first" || measures[1].Section != "third" {
		t.Errorf("measures %+v", measures)
	}
}

func TestRunNothing(t *testing.T) {
	all := []section{{name: "first"}, {name: "second"}}
	_, err := run(t.Context(), Options{Only: regexp.MustCompile("^third$")}, all)
	if err == nil || err.Error() != `only "^third$": no section has such a name; there are first, second` {
		t.Errorf("error %v", err)
	}
}

// TestCompareWith: another server is measured where any can be, and told beside the measure of the same name.
func TestCompareWith(t *testing.T) {
	both := func(_ context.Context, o Options) ([]Measure, error) {
		if o.program(apiServerProgram) == "other/server" {
			return []Measure{{Name: "gets", Value: 100, Unit: frequency}, {Name: "start", Value: 2000, Unit: "ms"}}, nil
		}
		if server := o.program(apiServerProgram); server != "bin/kube-apiserver" {
			t.Errorf("server %q", server)
		}
		return []Measure{{Name: "start", Value: 50, Unit: "ms"}, {Name: "gets", Value: 400, Unit: frequency},
			{Name: "alone", Value: 1}}, nil
	}
	all := []section{{name: "any", run: both, of: apiServerProgram}, {name: "own", run: both}}
	measures, err := run(t.Context(), Options{Bin: "bin", CompareWith: map[string]string{apiServerProgram: "other/server"}}, all)
	if err != nil {
		t.Fatal(err)
	}
	var ahead []float64
	for _, m := range measures {
		ahead = append(ahead, m.Ahead())
	}
	if want := []float64{40, 4, 0, 0, 0, 0}; !slices.Equal(ahead, want) {
		t.Errorf("ahead %v, want %v", ahead, want)
	}
	var table strings.Builder
	if err := Write(&table, measures); err != nil {
		t.Fatal(err)
	}
	line := strings.Join(strings.Fields(table.String()), " ")
	for _, want := range []string{"BESIDE AHEAD", "2000 40.0x", "100 4.00x"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
}

// TestOtherFails: what was measured first is told, whatever the other server does.
func TestOtherFails(t *testing.T) {
	broken := errors.New("unknown flag")
	one := func(_ context.Context, o Options) ([]Measure, error) {
		if o.program(apiServerProgram) == "other" {
			return nil, broken
		}
		return []Measure{{Name: "time"}}, nil
	}
	measures, err := run(t.Context(), Options{CompareWith: map[string]string{apiServerProgram: "other"}},
		[]section{{name: "first", run: one, of: apiServerProgram}})
	if !errors.Is(err, broken) || len(measures) != 1 {
		t.Errorf("measures %v, error %v", measures, err)
	}
}

// TestStartErrors: who has no program yet is told how to make it; in other cases the error stands alone.
func TestStartErrors(t *testing.T) {
	strange := filepath.Join(t.TempDir(), "kube-apiserver")
	if err := os.WriteFile(strange, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for program, advised := range map[string]bool{strange: false, strange + "-missing": true} {
		_, err := start(program)
		if err == nil || strings.Contains(err.Error(), "make build") != advised {
			t.Errorf("%s: %v", program, err)
		}
	}
}
