package clock_test

import (
	"context"
	"fmt"
	"time"

	"quintet.dev/quintet/clock"
)

// What was to happen in a month happens now, in its order.
func ExampleClock_Advance() {
	c := clock.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, days := range []int{30, 1, 7} {
		c.AfterFunc(time.Duration(days)*24*time.Hour, func() { fmt.Println("day", days) })
	}
	if err := c.Advance(context.Background(), 31*24*time.Hour); err != nil {
		fmt.Println(err)
	}
	fmt.Println(c.Now().Format(time.DateOnly))
	// Output:
	// day 1
	// day 7
	// day 30
	// 2026-02-01
}
