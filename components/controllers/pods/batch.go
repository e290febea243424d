package pods

import "sync"

// SlowStart calls f for 0..count-1 in batches of 1, 2, 4, ... at once each, and stops after the first batch with
// a failure: a persistent failure (a quota, an admission rejection) is then tried a few times only. It returns the
// number of calls that succeeded, of calls made, and the first error.
func SlowStart(count int, f func(i int) error) (succeeded, tried int, err error) {
	for size := 1; tried < count; size *= 2 {
		size = min(size, count-tried)
		errs := Together(size, func(i int) error { return f(tried + i) })
		tried += size
		for _, e := range errs {
			if e == nil {
				succeeded++
			}
		}
		if err := First(errs); err != nil {
			return succeeded, tried, err
		}
	}
	return succeeded, tried, nil
}

// Together calls f for 0..count-1 at once and returns an error or nil for each.
func Together(count int, f func(i int) error) []error {
	errs := make([]error, count)
	var calls sync.WaitGroup
	for i := range count {
		calls.Go(func() { errs[i] = f(i) })
	}
	calls.Wait()
	return errs
}

// First returns the first error that is not nil.
func First(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
