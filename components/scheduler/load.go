package scheduler

import "errors"

func (c *Config) load() error { return errors.New("not supported yet") }
