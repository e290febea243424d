package cache

import "sync"

// users are the requests that are at work on a cache. One that is replaced while requests are under way, as a
// definition of custom resources changes, goes on until they have ended.
type users struct {
	mu      sync.Mutex
	count   int
	retired func() // runs once the cache is no longer used
}

// Enter begins to use the cache, which goes on at least until Leave. It reports false if the cache has been removed.
func (u *users) Enter() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retired != nil && u.count == 0 {
		return false
	}
	u.count++
	return true
}

// Leave ends what Enter began.
func (u *users) Leave() {
	u.mu.Lock()
	u.count--
	last := u.count == 0
	retired := u.retired
	u.mu.Unlock()
	if last && retired != nil {
		retired()
	}
}

// retire runs then once the cache is no longer used.
func (u *users) retire(then func()) {
	u.mu.Lock()
	u.retired = then
	unused := u.count == 0
	u.mu.Unlock()
	if unused {
		then()
	}
}
