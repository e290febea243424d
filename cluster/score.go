package cluster

import (
	"context"

	"quintet.dev/quintet/score"
)

// scoreUser is who a recorder is to the API server, so that audit, faults and flow control tell it from the tests.
const scoreUser = "quintet:score"

// Record starts to record every change of every object, until Stop of the recorder. It goes on while API servers are
// killed and restarted; ctx bounds the start alone.
func (c *Cluster) Record(ctx context.Context, o score.Options) (*score.Recorder, error) {
	config, err := c.AddUser(ctx, scoreUser, "system:masters")
	if err != nil {
		return nil, err
	}
	return score.Record(ctx, config, o)
}
