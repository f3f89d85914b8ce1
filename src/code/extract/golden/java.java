package org.example.garden;

import java.util.List;
import java.util.Map.Entry;
import java.util.function.*;
import static java.util.Objects.requireNonNull;
import static org.example.garden.Tools.*;

/**
 * Waters plants.
 */
@Component
@Scope("singleton")
public abstract class Gardener<T extends Plant> extends org.example.base.Worker<T>
        implements Waterer, Comparable<Gardener<T>> {

    private static final int MAX_CANS = 3;
    @Autowired
    private final List<T> plants, seeds;
    private Consumer<T> hook = this::water;

    static {
        Registry.register(Gardener.class);
    }

    public Gardener(List<T> plants) {
        super(plants.size());
        this.plants = requireNonNull(plants);
        this.seeds = List.of();
    }

    @Override
    @Deprecated
    public int compareTo(Gardener<T> other) {
        return Integer.compare(MAX_CANS, other.cans());
    }

    @Override
    public void water(T plant) {
        water(plant, Amount.LARGE);
    }

    protected <A extends Amount> void water(T plant, A amount) throws DryException {
        for (T each : plants) {
            if (each instanceof Rose rose && rose.isThirsty()) {
                Runnable task = () -> rose.drink(amount, MAX_CANS);
                task.run();
            }
        }
        plants.stream().map(Plant::getName).filter(name -> name.isBlank()).forEach(System.out::println);
        new Thread(new Runnable() {
            private int turns = 0;

            @Override
            public void run() {
                pour(turns);
            }
        }).start();
        try (Can can = Can.open(Level.FULL)) {
            can.pour();
        } catch (DryException | RuntimeException e) {
            throw new IllegalStateException("dry", e);
        }
    }

    abstract int cans();

    public enum Level implements Named {
        EMPTY, FULL(10) {
            @Override
            int litres() { return 10; }
        };

        private int litres;

        Level() { this(0); }

        Level(int litres) { this.litres = litres; }

        int litres() { return litres; }
    }

    record Point(int x, int y) implements Named {
        Point {
            check(x, y);
        }

        static Point origin() { return new Point(0, 0); }
    }

    public @interface Thirsty {
        int value() default 1;
        String[] names() default {};
    }

    interface Waterer extends Tool, AutoCloseable {
        String NAME = "waterer";

        void water(Plant plant);

        default void close() { Tools.putAway(this); }
    }
}
