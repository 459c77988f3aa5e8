/* The exported policy, compiled: its actions beside those of Python. */
#include <math.h>
#include <stdio.h>
#include "policy.h"

int main(void)
{
    double seen[5], wanted[2], action[2], worst = 0;
    int lines = 0;
    while (scanf("%lf %lf %lf %lf %lf %lf %lf", seen, seen + 1, seen + 2, seen + 3, seen + 4, wanted, wanted + 1)
           == 7) {
        abps_policy_act(seen, action);
        worst = fmax(worst, fmax(fabs(action[0] - wanted[0]), fabs(action[1] - wanted[1])));
        lines++;
    }
    printf("C and Python at %d observations: largest difference %g\n", lines, worst);
    return lines == 10 && worst < 1e-9 ? 0 : 1;
}
