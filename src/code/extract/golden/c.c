#include <stdio.h>
#include <sys/types.h>
#include "ring.h"

#define RING_SIZE 64
#define RING_NEXT(i) (((i) + 1) % RING_SIZE)
#define EXPORT

struct ring {
	unsigned int head, tail;
	void *slots[RING_SIZE];
	struct ring *next;
	int (*on_full)(struct ring *ring, void *item);
	struct {
		int depth;
	} stats;
};

typedef struct {
	char name[16];
	struct ring *ring;
} producer_t;

typedef struct node {
	int value;
} node_t, *node_ptr;

typedef int (*visitor)(const struct node *node, void *context);
typedef unsigned long count_t;

enum state { RING_OPEN, RING_CLOSED = 4 };

typedef enum { LOW, HIGH } level_t;

union word {
	int i;
	float f;
};

static struct ring default_ring;
static const char *names[] = { "a", "b" };
extern int ring_debug;
int counter = RING_SIZE, total;

int ring_push(struct ring *ring, void *item);
static inline node_t *ring_peek(const struct ring *ring);
void ring_each(struct ring *, visitor fn);

static int is_full(const struct ring *ring)
{
	return RING_NEXT(ring->tail) == ring->head;
}

EXPORT int ring_push(struct ring *ring, void *item)
{
	int rc = 0;
	visitor visit = print_node;

	if (is_full(ring)) {
		rc = ring->on_full(ring, item);
		goto out;
	}
	ring->slots[ring->tail] = item;
	ring_each(ring, visit);
	ring_each(&default_ring, count_node);
out:
	return rc;
}

void **ring_slots(struct ring *ring)
{
	return ring->slots;
}

static const struct operations ops = {
	.push = ring_push,
	.peek = ring_peek,
};

#ifdef RING_DEBUG
void ring_dump(producer_t *p, enum state state)
{
	switch (state) {
	case RING_OPEN:
		fprintf(stderr, "%s\n", p->name);
		break;
	default:
		abort();
	}
}
#endif

int main(int argc, char **argv)
{
	producer_t p = { .ring = &default_ring };
	node_t *n = malloc(sizeof(node_t));
	for (int i = 0; i < argc; i++)
		ring_push(p.ring, (void *)argv[i]);
	return ring_debug ? EXIT_FAILURE : counter;
}
