package batch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

// FuzzParseIndexes holds that what is read rises, is below the completions, and is read again as it is written.
func FuzzParseIndexes(f *testing.F) {
	for _, text := range []string{"", "0", "0,3-5,7", "1-0", "-1", "+1", "1,,2", "1-", "0-1-2", "00,01", "3,2", "9",
		"99999999999999999999"} {
		f.Add(text, int32(9), true)
		f.Add(text, int32(0), false)
	}
	f.Fuzz(func(t *testing.T, text string, completions int32, bound bool) {
		var most *int32
		if bound {
			most = &completions
		}
		spans, err := parseIndexes(text, most)
		if err != nil {
			if spans != nil {
				t.Errorf("%q: got %v with %v", text, spans, err)
			}
			return
		}
		previous, written := -1, make([]string, len(spans))
		for i, s := range spans {
			written[i] = fmt.Sprint(s.first)
			if s.first <= previous || s.last < s.first || bound && s.last >= int(completions) {
				t.Fatalf("%q: got %v", text, spans)
			}
			if s.last > s.first {
				written[i] = fmt.Sprintf("%d-%d", s.first, s.last)
			}
			previous = s.last
		}
		again, err := parseIndexes(strings.Join(written, ","), most)
		if err != nil || !slices.Equal(again, spans) {
			t.Errorf("%q: %v became %v, %v", text, spans, again, err)
		}
	})
}

// FuzzParseSchedule holds that nothing a client sends makes the parser panic, and that a schedule which is taken says
// when it is due.
func FuzzParseSchedule(f *testing.F) {
	for _, text := range []string{
		"", "* * * * *", "*/5 0-3,7 1 JAN-FEB MON", "60 * * * *", "@every 1h", "@daily", "@every x", "TZ=UTC 0 * * * *",
		"TZ=0", "CRON_TZ=", "0 0 31 2 *", "*/0 * * * *", "1-0 * * * *", "* * * * * *",
	} {
		f.Add(text)
	}
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if err := parseSchedule(text); err != nil {
			if err.Error() == "" {
				t.Errorf("%q is refused without a word", text)
			}
			return
		}
		schedule, err := cron.ParseStandard(text)
		if err != nil {
			t.Fatalf("%q is taken, but is no schedule: %v", text, err)
		}
		if next := schedule.Next(noon); !next.IsZero() && !next.After(noon) {
			t.Errorf("%q is due at %s", text, next)
		}
	})
}
