package cronjob

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // images have no time zones of their own
)

// schedule tells when something happens next
// (https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#schedule-syntax).
type schedule interface {
	// next returns the first time after t; zero if there is none within five years.
	next(t time.Time) time.Time
}

// period is the schedule "@every".
type period time.Duration

func (p period) next(t time.Time) time.Time {
	return t.Add(time.Duration(p)).Truncate(time.Second)
}

// calendar is a schedule of five fields: a bit for each value that fits.
type calendar struct {
	minutes, hours, days, months, weekdays uint64
	// anyDay and anyWeekday tell that the field was a star: when neither is, it is enough that one of both fits.
	anyDay, anyWeekday bool
	location           *time.Location
}

var short = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

// parse reads a schedule; a time zone in it goes before location.
func parse(text string, location *time.Location) (schedule, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		zone, rest, ok := strings.Cut(text, " ")
		if !ok {
			return nil, fmt.Errorf("schedule %q: nothing follows the time zone", text)
		}
		_, name, _ := strings.Cut(zone, "=")
		own, err := time.LoadLocation(name)
		if err != nil {
			return nil, fmt.Errorf("schedule %q: %w", text, err)
		}
		text, location = strings.TrimSpace(rest), own
	}
	if every, ok := strings.CutPrefix(text, "@every "); ok {
		d, err := time.ParseDuration(every)
		if err != nil {
			return nil, fmt.Errorf("schedule %q: %w", text, err)
		}
		return period(max(d, time.Second).Truncate(time.Second)), nil
	}
	if full, ok := short[text]; ok {
		text = full
	}
	fields := strings.Fields(text)
	if len(fields) != 5 {
		return nil, fmt.Errorf("schedule %q: it has %d fields, not 5", text, len(fields))
	}
	c := &calendar{anyDay: starred(fields[2]), anyWeekday: starred(fields[4]), location: location}
	for i, f := range []struct {
		bits     *uint64
		min, max int
		names    string
	}{
		{&c.minutes, 0, 59, ""}, {&c.hours, 0, 23, ""}, {&c.days, 1, 31, ""},
		{&c.months, 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"},
		{&c.weekdays, 0, 6, "sun mon tue wed thu fri sat"},
	} {
		r := span{f.min, f.max, strings.Fields(f.names)}
		for item := range strings.SplitSeq(fields[i], ",") {
			bits, err := r.bits(item)
			if err != nil {
				return nil, fmt.Errorf("schedule %q: %w", text, err)
			}
			*f.bits |= bits
		}
	}
	return c, nil
}

func starred(field string) bool {
	for item := range strings.SplitSeq(field, ",") {
		if item == "*" || item == "?" {
			return true
		}
	}
	return false
}

// span is the range of a field and the names of its values, from min on.
type span struct {
	min, max int
	names    []string
}

// bits reads one item of a field: a value, a range or a star, each with an optional step.
func (s span) bits(item string) (uint64, error) {
	values, step, stepped := strings.Cut(item, "/")
	every := 1
	if stepped {
		var err error
		if every, err = strconv.Atoi(step); err != nil || every < 1 {
			return 0, fmt.Errorf("step %q is not a positive number", step)
		}
	}
	from, to := s.min, s.max
	if values != "*" && values != "?" {
		low, high, ranged := strings.Cut(values, "-")
		var err error
		if from, err = s.value(low); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if to, err = s.value(high); err != nil {
				return 0, err
			}
		case !stepped: // n/step continues to the end
			to = from
		}
	}
	if from > to {
		return 0, fmt.Errorf("range %q ends before it begins", item)
	}
	var bits uint64
	for v := from; v <= to; v += every {
		bits |= 1 << v
	}
	return bits, nil
}

func (s span) value(text string) (int, error) {
	for i, name := range s.names {
		if strings.EqualFold(name, text) {
			return s.min + i, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < s.min || n > s.max {
		return 0, fmt.Errorf("%q is not a number from %d to %d", text, s.min, s.max)
	}
	return n, nil
}

func (c *calendar) next(after time.Time) time.Time {
	t := after.In(c.location).Truncate(time.Second)
	t = t.Add(time.Minute - time.Duration(t.Second())*time.Second)
	last := t.Year() + 5
	for t.Year() <= last {
		switch {
		case c.months&(1<<t.Month()) == 0:
			t = later(t, time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, c.location))
		case !c.day(t):
			t = later(t, time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, c.location))
		case c.hours&(1<<t.Hour()) == 0:
			t = t.Add(time.Hour - time.Duration(t.Minute())*time.Minute)
		case c.minutes&(1<<t.Minute()) == 0:
			t = t.Add(time.Minute)
		default:
			return t
		}
	}
	return time.Time{}
}

// later ensures that time advances: with daylight saving time, a day may not begin at midnight.
func later(t, next time.Time) time.Time {
	if next.After(t) {
		return next
	}
	return t.Add(time.Hour - time.Duration(t.Minute())*time.Minute)
}

func (c *calendar) day(t time.Time) bool {
	day, weekday := c.days&(1<<t.Day()) != 0, c.weekdays&(1<<t.Weekday()) != 0
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}
